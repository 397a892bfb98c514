-- Whoever has the database has every deadline in memory; nobody asks for them here, and each dispatch wrote the index twice.
DROP INDEX fleet_jobs_due;
ALTER TABLE fleet_jobs DROP COLUMN due;
