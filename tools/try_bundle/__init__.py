"""`make try-bundle`: the functions' asset under the real Lambda runtime client, with nothing else to import."""
