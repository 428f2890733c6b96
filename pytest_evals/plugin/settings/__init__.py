"""What was asked for, on the command line and in the ini file."""
