//! A disk whose content is encrypted: AES-256-XTS, with the tier and the block as the sector, and a key that dies with
//! the server.
//!
//! A reader of the disk learns which blocks changed and nothing else. There is no authentication: `--verify` finds
//! changed pages.

use std::os::fd::BorrowedFd;

use aes::Aes256;
use aes::cipher::{
    Array, KeyInit,
    consts::{U32, U64},
};
use linux::disk_queue::{Ended, Part};
use xts_mode::{Xts128, get_tweak_default};

use super::{Disk, Tier};
use crate::Error;
use crate::carrier::SLOT_BYTES;

/// Bytes of a key.
pub const KEY_BYTES: usize = 64;

/// A disk, encrypted if it has a key.
pub struct Encrypted<D> {
    disk: D,
    cipher: Option<Xts128<Aes256>>,
    tier: Tier,
    buffers: Vec<State>,
}

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Plain,
    /// What the disk gets, if a write is tried again.
    Encrypted,
    /// What the disk will have read.
    Reading {
        part: Part,
        sector: u128,
    },
}

impl<D: Disk> Encrypted<D> {
    /// The disk of a tier with a key, or as it is. Tiers with the same key encrypt equal pages in other ways.
    pub fn new(disk: D, tier: Tier, key: Option<&[u8; KEY_BYTES]>) -> Encrypted<D> {
        let cipher = key.map(|key| {
            let (first, second) = Array::<u8, U64>(*key).split::<U32>();
            Xts128::new(Aes256::new(&first), Aes256::new(&second))
        });
        let buffers = vec![State::Plain; disk.buffers()];
        Encrypted { disk, cipher, tier, buffers }
    }

    /// The disk below.
    pub fn into_inner(self) -> D {
        self.disk
    }
}

fn sector(tier: Tier, offset: u64) -> u128 {
    let first = match tier {
        Tier::Slow => 0,
        Tier::Fast => 1 << 64,
    };
    first + u128::from(offset / SLOT_BYTES as u64)
}

impl<D: Disk> Disk for Encrypted<D> {
    fn buffers(&self) -> usize {
        self.disk.buffers()
    }

    fn buffer(&self, buffer: usize) -> &[u8] {
        self.disk.buffer(buffer)
    }

    fn buffer_mut(&mut self, buffer: usize) -> &mut [u8] {
        self.buffers[buffer] = State::Plain;
        self.disk.buffer_mut(buffer)
    }

    fn read(&mut self, token: u64, part: Part, offset: u64) {
        self.buffers[part.buffer] = State::Reading { part, sector: sector(self.tier, offset) };
        self.disk.read(token, part, offset);
    }

    /// The whole of a buffer is written before its parts are tried again, so all of it is encrypted by then.
    fn write(&mut self, token: u64, part: Part, offset: u64) {
        if let Some(cipher) = &self.cipher
            && self.buffers[part.buffer] == State::Plain
        {
            let content = &mut self.disk.buffer_mut(part.buffer)[part.begin..][..part.bytes];
            cipher.encrypt_area(content, SLOT_BYTES, sector(self.tier, offset), get_tweak_default);
        }
        self.buffers[part.buffer] = State::Encrypted;
        self.disk.write(token, part, offset);
    }

    fn sync(&mut self, token: u64) {
        self.disk.sync(token);
    }

    fn submit(&mut self) -> Result<bool, Error> {
        self.disk.submit()
    }

    fn ended(&mut self) -> Option<Ended> {
        let ended = self.disk.ended()?;
        // The token of a request is its buffer.
        let state = self.buffers.get_mut(ended.token as usize);
        if let (Some(state), Some(cipher)) = (state, &self.cipher)
            && let State::Reading { part, sector } = *state
        {
            *state = State::Plain;
            if ended.result == Ok(part.bytes) {
                let content = &mut self.disk.buffer_mut(part.buffer)[part.begin..][..part.bytes];
                cipher.decrypt_area(content, SLOT_BYTES, sector, get_tweak_default);
            }
        }
        Some(ended)
    }

    fn start(&mut self) -> Result<(), Error> {
        self.disk.start()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.disk.descriptor()
    }
}
