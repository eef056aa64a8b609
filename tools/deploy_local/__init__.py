"""`make deploy-local`: a real `cdk deploy` into an emulator on this machine, and real work through what it made."""
