"""Watching of scored traffic: sessions, streams and alarms, as pure logic over plain data."""
