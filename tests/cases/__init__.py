"""What has gone wrong in other programs of this kind, one test per case, with the right outcome."""
