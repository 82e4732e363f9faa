"""What any trio program could use: nurseries, a bell, back-off, a fair limiter, text hygiene, logs."""
