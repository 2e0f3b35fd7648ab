//! The virtual device: replays recorded events against policies and storage.
