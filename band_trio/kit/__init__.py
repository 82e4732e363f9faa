"""What any trio program could use: nurseries, a bell, back-off, a limiter, text hygiene, logs."""
