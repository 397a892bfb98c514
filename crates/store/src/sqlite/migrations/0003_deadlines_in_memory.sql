-- The coordinator keeps every deadline in memory; no query reads this column, and each dispatch wrote its index twice.
DROP INDEX fleet_jobs_due;
ALTER TABLE fleet_jobs DROP COLUMN due;
