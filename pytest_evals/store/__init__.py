"""What lasts: the folders and files of runs."""
