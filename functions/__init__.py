"""What Lambda and the containers start: each a few lines that call the library."""
