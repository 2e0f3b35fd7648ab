//! Maps sectors of disks to slots of swap areas.

use linux::{Root, extents, swap};

/// Swap entries count pages of this size, as recordings do.
const PAGE_BYTES: u64 = 4096;

/// The bit at which the number of the area begins in a swap entry on 64-bit machines.
const AREA_SHIFT: u32 = 58;

/// A piece of a swap area on a disk.
#[derive(Clone, Copy, Debug)]
struct Piece {
    device: u32,
    first_byte: u64,
    bytes: u64,
    /// The swap entry of its first page.
    entry: u64,
}

/// The pieces of all swap areas on the disks.
#[derive(Debug, Default)]
pub struct Slots(Vec<Piece>);

impl Slots {
    /// Finds the areas in use; also returns the reasons for areas that cannot be found on their disk.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn now(root: &Root) -> Result<(Slots, Vec<String>), linux::Error> {
        let (mut pieces, mut unknown) = (Vec::new(), Vec::new());
        for (number, area) in swap::areas(root)?.into_iter().enumerate() {
            match extents::of(root, &area.path) {
                Ok(extents) => pieces.extend(extents.iter().map(|extent| Piece {
                    device: extent.device,
                    first_byte: extent.device_byte,
                    bytes: extent.bytes,
                    entry: (number as u64) << AREA_SHIFT | (extent.file_byte / PAGE_BYTES),
                })),
                Err(error) => unknown.push(error.to_string()),
            }
        }
        Ok((Slots(pieces), unknown))
    }

    /// Adds a device that becomes a swap area later: its entries are the numbers of its pages.
    pub fn add(&mut self, device: u32) {
        self.0.push(Piece { device, first_byte: 0, bytes: u64::MAX, entry: 0 });
    }

    /// The swap entry of the page at `byte` of a device; None if it is in no area.
    pub fn entry(&self, device: u32, byte: u64) -> Option<u64> {
        let piece = self.0.iter().find(|piece| {
            piece.device == device
                && byte.checked_sub(piece.first_byte).is_some_and(|place| place < piece.bytes)
        })?;
        Some(piece.entry + (byte - piece.first_byte) / PAGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_found_in_the_pieces_of_their_area() {
        let piece = |device, first_byte, entry| Piece { device, first_byte, bytes: 8192, entry };
        let area = 1 << AREA_SHIFT;
        let mut slots =
            Slots(vec![piece(8, 4096, area), piece(8, 40960, area | 2), piece(9, 0, 0)]);
        slots.add(11);
        assert_eq!(slots.entry(11, 8192 * 4096), Some(8192));
        assert_eq!(slots.entry(8, 4096 + 4096), Some(area | 1));
        assert_eq!(slots.entry(8, 40960), Some(area | 2));
        assert_eq!(slots.entry(9, 0), Some(0));
        for (device, byte) in [(8, 0), (8, 4096 + 8192), (7, 4096)] {
            assert_eq!(slots.entry(device, byte), None, "{device} {byte}");
        }
    }
}
