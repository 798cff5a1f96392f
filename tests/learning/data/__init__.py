"""Tests of data and their partitions."""
