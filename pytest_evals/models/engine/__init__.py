"""What the engines that run models on this machine share."""
