//! A safe wrapper of libdeflate's gzip reader that says where a member ends.

use std::ptr::NonNull;

use libdeflate_sys as sys;

/// What became of one gzip member.
pub enum Inflated {
    Done {
        read: usize,
        written: usize,
    },
    /// The output does not suffice; how much more is needed is not known.
    Full,
    Damaged,
}

/// One decompressor, for use by one thread at a time.
pub struct Inflater {
    raw: NonNull<sys::libdeflate_decompressor>,
}

impl Inflater {
    /// Returns None where memory is short.
    pub fn new() -> Option<Self> {
        // SAFETY: the allocation has no preconditions and may return null.
        NonNull::new(unsafe { sys::libdeflate_alloc_decompressor() }).map(|raw| Inflater { raw })
    }

    /// Decompresses the member at the start of `packed`.
    pub fn member(&mut self, packed: &[u8], out: &mut [u8]) -> Inflated {
        let (mut read, mut written) = (0usize, 0usize);
        // SAFETY: pointers and lengths are those of live slices; libdeflate stays within both.
        let code = unsafe {
            sys::libdeflate_gzip_decompress_ex(
                self.raw.as_ptr(),
                packed.as_ptr().cast(),
                packed.len(),
                out.as_mut_ptr().cast(),
                out.len(),
                &mut read,
                &mut written,
            )
        };
        match code {
            sys::libdeflate_result_LIBDEFLATE_SUCCESS => Inflated::Done { read, written },
            sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => Inflated::Full,
            _ => Inflated::Damaged,
        }
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed once.
        unsafe { sys::libdeflate_free_decompressor(self.raw.as_ptr()) }
    }
}
