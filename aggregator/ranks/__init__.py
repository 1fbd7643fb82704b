"""Ranks of a distributed job: several captures as one database, and what they wait for."""
