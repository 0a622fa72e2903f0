//! Checksums of the record formats: CRC-32 (magic 0 and 1) and CRC-32C (magic 2).

pub fn crc32c(data: &[u8]) -> u32 {
    crc32c::crc32c(data)
}

pub fn crc32(data: &[u8]) -> u32 {
    libdeflater::crc32(data)
}
