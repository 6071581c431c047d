-- The largest limit and the largest buffer of any SKU's own are asked for each time that the catalogue is
-- looked over.

CREATE INDEX skus_low ON skus (low) WHERE low IS NOT NULL;
CREATE INDEX sku_sources_buffer ON sku_sources (buffer) WHERE buffer IS NOT NULL;
