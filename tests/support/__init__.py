"""What the tests of the Python core share: a retail desk, a toy domain on disk, engines that misbehave, fixtures."""
