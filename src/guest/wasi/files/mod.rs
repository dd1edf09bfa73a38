//! `wasi:filesystem` over files in memory ([`tree`]). Nothing of the machine's own files can be
//! reached: there is no code here that opens one.
//!
//! Only programs have files, and one folder that is open from the start, `/`. Guests have none:
//! they find no folder to open.

mod streams;
pub(crate) mod tree;
mod work;

pub(super) use streams::{Sink, Source};
pub(super) use work::{charge_grown, link};

use super::{WasiHost, WasiView};
use std::sync::Arc;
use streams::Writer;
use tree::{Entry, File, Folder};
use types::{
    Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream, ErrorCode,
    MetadataHashValue, OpenFlags, PathFlags,
};
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};
use wasmtime_wasi::p2::{FsError, FsResult};
use wasmtime_wasi_io::streams::{DynInputStream, DynOutputStream};

/// Bytes that one call reads at most. Arbitrary; what a program's library asks for is less.
const READ_BYTES_MAX: u64 = 64 << 10;

/// An open file or folder. In the table of resources it stands where the bindings name
/// [`Descriptor`], whose own values reach real files and are never made here.
#[derive(Clone)]
enum Open {
    File { file: Arc<File>, flags: DescriptorFlags },
    Folder(Arc<Folder>),
}

/// Reads the entries of a folder, each when it is asked for: a copy of all of them would be memory
/// that no limit counts.
struct Listing {
    folder: Arc<Folder>,
    /// The name that was read last.
    after: Option<String>,
}

impl Open {
    fn id(&self) -> u64 {
        match self {
            Self::File { file, .. } => file.id,
            Self::Folder(folder) => folder.id,
        }
    }

    fn stat(&self) -> DescriptorStat {
        match self {
            Self::File { file, .. } => stat(DescriptorType::RegularFile, file.len()),
            Self::Folder(_) => stat(DescriptorType::Directory, 0),
        }
    }
}

/// Files have no times: they would be those of the machine.
fn stat(ty: DescriptorType, size: u64) -> DescriptorStat {
    DescriptorStat {
        type_: ty,
        link_count: 1,
        size,
        data_access_timestamp: None::<Datetime>,
        data_modification_timestamp: None,
        status_change_timestamp: None,
    }
}

fn stat_of(entry: &Entry) -> DescriptorStat {
    match entry {
        Entry::File(file) => stat(DescriptorType::RegularFile, file.len()),
        Entry::Folder(_) => stat(DescriptorType::Directory, 0),
    }
}

fn hash(id: u64) -> MetadataHashValue {
    MetadataHashValue { lower: id, upper: 0 }
}

impl<T: WasiView> WasiHost<'_, T> {
    fn open_entry(&mut self, descriptor: &Resource<Descriptor>) -> FsResult<Open> {
        let open = Resource::<Open>::new_borrow(descriptor.rep());
        Ok(self.state().table.get(&open)?.clone())
    }

    fn folder(&mut self, descriptor: &Resource<Descriptor>) -> FsResult<Arc<Folder>> {
        match self.open_entry(descriptor)? {
            Open::Folder(folder) => Ok(folder),
            Open::File { .. } => Err(ErrorCode::NotDirectory.into()),
        }
    }

    /// The file of a descriptor, if it was opened for this.
    fn file(&mut self, descriptor: &Resource<Descriptor>, needed: DescriptorFlags) -> FsResult<Arc<File>> {
        match self.open_entry(descriptor)? {
            Open::File { file, flags } if flags.contains(needed) => Ok(file),
            Open::File { .. } => Err(ErrorCode::NotPermitted.into()),
            Open::Folder(_) => Err(ErrorCode::IsDirectory.into()),
        }
    }

    fn push(&mut self, open: Open) -> FsResult<Resource<Descriptor>> {
        let pushed = self.state().table.push(open)?;
        Ok(Resource::new_own(pushed.rep()))
    }

    fn writer(&mut self, file: Arc<File>, at: Option<u64>) -> FsResult<Resource<DynOutputStream>> {
        let stream: DynOutputStream = Box::new(Writer::new(file, at));
        Ok(self.state().table.push(stream)?)
    }
}

impl<T: WasiView> preopens::Host for WasiHost<'_, T> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let Some(root) = self.state().program.as_ref().map(|program| Arc::clone(&program.root)) else {
            return Ok(Vec::new());
        };
        let pushed = self.state().table.push(Open::Folder(root))?;
        Ok(vec![(Resource::new_own(pushed.rep()), "/".to_owned())])
    }
}

impl<T: WasiView> types::Host for WasiHost<'_, T> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        Ok(self.state().table.get(&error)?.downcast_ref::<ErrorCode>().copied())
    }
}

impl<T: WasiView> types::HostDescriptor for WasiHost<'_, T> {
    async fn advise(&mut self, fd: Resource<Descriptor>, _: u64, _: u64, _: types::Advice) -> FsResult<()> {
        self.file(&fd, DescriptorFlags::empty()).map(|_| ())
    }

    async fn sync_data(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        self.open_entry(&fd).map(|_| ())
    }

    async fn sync(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        self.open_entry(&fd).map(|_| ())
    }

    async fn get_flags(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorFlags> {
        Ok(match self.open_entry(&fd)? {
            Open::File { flags, .. } => flags,
            Open::Folder(_) => DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY,
        })
    }

    async fn get_type(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorType> {
        Ok(self.open_entry(&fd)?.stat().type_)
    }

    async fn set_size(&mut self, fd: Resource<Descriptor>, size: u64) -> FsResult<()> {
        Ok(self.file(&fd, DescriptorFlags::WRITE)?.resize(size)?)
    }

    async fn set_times(
        &mut self,
        fd: Resource<Descriptor>,
        _: types::NewTimestamp,
        _: types::NewTimestamp,
    ) -> FsResult<()> {
        self.open_entry(&fd).map(|_| ())
    }

    async fn read(&mut self, fd: Resource<Descriptor>, length: u64, offset: u64) -> FsResult<(Vec<u8>, bool)> {
        let file = self.file(&fd, DescriptorFlags::READ)?;
        let bytes = file.read(offset, length.min(READ_BYTES_MAX) as usize)?;
        let is_at_end = offset.saturating_add(bytes.len() as u64) >= file.len();
        Ok((bytes, is_at_end))
    }

    async fn write(&mut self, fd: Resource<Descriptor>, bytes: Vec<u8>, offset: u64) -> FsResult<u64> {
        self.file(&fd, DescriptorFlags::WRITE)?.write(offset, &bytes)?;
        Ok(bytes.len() as u64)
    }

    async fn read_directory(&mut self, fd: Resource<Descriptor>) -> FsResult<Resource<DirectoryEntryStream>> {
        let folder = self.folder(&fd)?;
        let pushed = self.state().table.push(Listing { folder, after: None })?;
        Ok(Resource::new_own(pushed.rep()))
    }

    async fn create_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        Ok(self.folder(&fd)?.place(&path)?.create_folder()?)
    }

    async fn stat(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorStat> {
        Ok(self.open_entry(&fd)?.stat())
    }

    async fn stat_at(&mut self, fd: Resource<Descriptor>, _: PathFlags, path: String) -> FsResult<DescriptorStat> {
        Ok(stat_of(&self.folder(&fd)?.place(&path)?.entry()?))
    }

    async fn set_times_at(
        &mut self,
        fd: Resource<Descriptor>,
        _: PathFlags,
        path: String,
        _: types::NewTimestamp,
        _: types::NewTimestamp,
    ) -> FsResult<()> {
        self.folder(&fd)?.place(&path)?.entry()?;
        Ok(())
    }

    async fn link_at(
        &mut self,
        _: Resource<Descriptor>,
        _: PathFlags,
        _: String,
        _: Resource<Descriptor>,
        _: String,
    ) -> FsResult<()> {
        Err(ErrorCode::Unsupported.into())
    }

    async fn open_at(
        &mut self,
        fd: Resource<Descriptor>,
        _: PathFlags,
        path: String,
        how: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        let place = self.folder(&fd)?.place(&path)?;
        let open = match place.entry() {
            Ok(_) if how.contains(OpenFlags::EXCLUSIVE) => return Err(ErrorCode::Exist.into()),
            Ok(Entry::Folder(_)) if flags.contains(DescriptorFlags::WRITE) => {
                return Err(ErrorCode::IsDirectory.into());
            }
            Ok(Entry::Folder(folder)) => Open::Folder(folder),
            Ok(Entry::File(_)) if how.contains(OpenFlags::DIRECTORY) => return Err(ErrorCode::NotDirectory.into()),
            Ok(Entry::File(file)) => {
                if flags.contains(DescriptorFlags::WRITE) {
                    file.writable()?;
                }
                if how.contains(OpenFlags::TRUNCATE) {
                    file.resize(0)?;
                }
                Open::File { file, flags }
            }
            Err(ErrorCode::NoEntry) if how.contains(OpenFlags::CREATE) => {
                Open::File { file: place.create_file()?, flags }
            }
            Err(error) => return Err(error.into()),
        };
        self.push(open)
    }

    fn drop(&mut self, fd: Resource<Descriptor>) -> wasmtime::Result<()> {
        self.state().table.delete(Resource::<Open>::new_own(fd.rep()))?;
        Ok(())
    }

    async fn readlink_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<String> {
        self.folder(&fd)?.place(&path)?.entry()?;
        Err(ErrorCode::Invalid.into())
    }

    async fn remove_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        Ok(self.folder(&fd)?.place(&path)?.remove_folder()?)
    }

    async fn rename_at(
        &mut self,
        fd: Resource<Descriptor>,
        from: String,
        to_fd: Resource<Descriptor>,
        to: String,
    ) -> FsResult<()> {
        let from = self.folder(&fd)?.place(&from)?;
        Ok(from.rename(&self.folder(&to_fd)?.place(&to)?)?)
    }

    async fn symlink_at(&mut self, _: Resource<Descriptor>, _: String, _: String) -> FsResult<()> {
        Err(ErrorCode::Unsupported.into())
    }

    async fn unlink_file_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        Ok(self.folder(&fd)?.place(&path)?.remove_file()?)
    }

    fn read_via_stream(&mut self, fd: Resource<Descriptor>, offset: u64) -> FsResult<Resource<DynInputStream>> {
        let file = self.file(&fd, DescriptorFlags::READ)?;
        let stream: DynInputStream = Box::new(Source::of_file(file, offset));
        Ok(self.state().table.push(stream)?)
    }

    fn write_via_stream(&mut self, fd: Resource<Descriptor>, offset: u64) -> FsResult<Resource<DynOutputStream>> {
        let file = self.file(&fd, DescriptorFlags::WRITE)?;
        self.writer(file, Some(offset))
    }

    fn append_via_stream(&mut self, fd: Resource<Descriptor>) -> FsResult<Resource<DynOutputStream>> {
        let file = self.file(&fd, DescriptorFlags::WRITE)?;
        self.writer(file, None)
    }

    async fn is_same_object(&mut self, a: Resource<Descriptor>, b: Resource<Descriptor>) -> wasmtime::Result<bool> {
        let id = |host: &mut Self, fd| host.open_entry(fd).map(|open| open.id()).map_err(wasmtime::Error::from);
        Ok(id(self, &a)? == id(self, &b)?)
    }

    async fn metadata_hash(&mut self, fd: Resource<Descriptor>) -> FsResult<MetadataHashValue> {
        Ok(hash(self.open_entry(&fd)?.id()))
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Resource<Descriptor>,
        _: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        Ok(hash(self.folder(&fd)?.place(&path)?.entry()?.id()))
    }
}

impl<T: WasiView> types::HostDirectoryEntryStream for WasiHost<'_, T> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing = Resource::<Listing>::new_borrow(stream.rep());
        let listing = self.state().table.get_mut(&listing)?;
        let Some((name, entry)) = listing.folder.next(listing.after.as_deref()) else { return Ok(None) };
        listing.after = Some(name.clone());
        Ok(Some(DirectoryEntry { type_: stat_of(&entry).type_, name }))
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.state().table.delete(Resource::<Listing>::new_own(stream.rep()))?;
        Ok(())
    }
}
