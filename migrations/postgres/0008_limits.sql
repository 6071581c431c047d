-- The largest limit that a SKU has of its own is asked for each time that the catalogue is looked over.

CREATE INDEX skus_low ON skus (low) WHERE low IS NOT NULL;
