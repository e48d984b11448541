"""Process monitor: control charts, alarms, events, drift, contributions, sensor faults."""
