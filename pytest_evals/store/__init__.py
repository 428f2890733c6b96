"""What lasts: the folder of results and the files in it."""
