"""What a gate can see before anything is asked, and which bar noise allows."""
