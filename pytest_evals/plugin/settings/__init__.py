"""Options of the command line and the ini file."""
