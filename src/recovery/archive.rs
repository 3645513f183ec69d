//! Packing what an engine packed into one archive: every entry keeps what it is and gets the folder it came from. Long names
//! and numbers stand in extended headers, which every `tar` of this century reads.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

const BLOCK: usize = 512;
/// No header, and no long name, is larger on any honest system.
const LARGEST_HEADER: u64 = 1 << 20;

/// An archive in the making.
pub(super) struct Archive<W: Write> {
    out: W,
    entries: usize,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, entries: 0 }
    }

    /// Adds everything of an archive, below `parent`. With `files_only` an archive whose first entry is a folder adds
    /// nothing.
    pub(super) fn add(&mut self, packed: &mut impl Read, parent: &str, files_only: bool) -> io::Result<()> {
        let parent = parent.trim_matches('/');
        let mut extended = BTreeMap::new();
        let mut first = true;
        loop {
            let mut header = [0_u8; BLOCK];
            if !fill(packed, &mut header)? || header.iter().all(|byte| *byte == 0) {
                return Ok(());
            }
            let size = number(&header[124..136])?;
            match header[156] {
                b'x' => extended.extend(records(&held(packed, size)?)?),
                b'g' => drop(held(packed, size)?),
                b'L' => drop(extended.insert("path".to_owned(), terminated(&held(packed, size)?))),
                b'K' => drop(extended.insert("linkpath".to_owned(), terminated(&held(packed, size)?))),
                kind => {
                    if std::mem::take(&mut first) && files_only && kind == b'5' {
                        return Ok(());
                    }
                    let told = std::mem::take(&mut extended);
                    self.entry(packed, header, told, parent)?;
                }
            }
        }
    }

    fn entry(
        &mut self,
        packed: &mut impl Read,
        mut header: [u8; BLOCK],
        mut extended: BTreeMap<String, Vec<u8>>,
        parent: &str,
    ) -> io::Result<()> {
        let size = match extended.get("size") {
            Some(size) => {
                std::str::from_utf8(size).ok().and_then(|size| size.parse().ok()).ok_or_else(bad)?
            }
            None => number(&header[124..136])?,
        };
        let within = |name: &[u8]| {
            let name = name.strip_prefix(b"/").unwrap_or(name);
            if parent.is_empty() { name.to_vec() } else { [parent.as_bytes(), b"/", name].concat() }
        };
        let name = extended.remove("path").unwrap_or_else(|| short_name(&header));
        let name = within(&name);
        // A hard link names another entry of the same archive; a soft one names what it pleases.
        if header[156] == b'1' {
            let target = extended.remove("linkpath").unwrap_or_else(|| terminated(&header[157..257]));
            extended.insert("linkpath".to_owned(), within(&target));
        }
        extended.insert("path".to_owned(), name.clone());
        self.extended(&extended)?;
        header[..100].fill(0);
        let kept = name.len().min(99);
        header[..kept].copy_from_slice(&name[name.len() - kept..]);
        header[345..500].fill(0);
        seal(&mut header);
        self.out.write_all(&header)?;
        let copied = io::copy(&mut packed.by_ref().take(size), &mut self.out)?;
        if copied < size {
            return Err(bad());
        }
        let padding = padding(size);
        held_exactly(packed, padding)?;
        self.out.write_all(&vec![0; padding])?;
        self.entries += 1;
        Ok(())
    }

    /// A header that says of the next entry what has no place in its own.
    fn extended(&mut self, records: &BTreeMap<String, Vec<u8>>) -> io::Result<()> {
        let mut body = Vec::new();
        for (key, value) in records {
            // The length counts itself.
            let rest = key.len() + value.len() + 3;
            let mut length = rest + 1;
            while rest + length.to_string().len() != length {
                length = rest + length.to_string().len();
            }
            body.extend_from_slice(format!("{length} {key}=").as_bytes());
            body.extend_from_slice(value);
            body.push(b'\n');
        }
        let mut header = [0_u8; BLOCK];
        header[..5].copy_from_slice(b"./pax");
        header[100..108].copy_from_slice(b"0000644\0");
        header[108..116].copy_from_slice(b"0000000\0");
        header[116..124].copy_from_slice(b"0000000\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", body.len()).as_bytes());
        header[136..148].copy_from_slice(b"00000000000\0");
        header[156] = b'x';
        header[257..265].copy_from_slice(b"ustar\x0000");
        seal(&mut header);
        self.out.write_all(&header)?;
        self.out.write_all(&body)?;
        self.out.write_all(&vec![0; padding(body.len() as u64)])
    }

    /// Ends it; says how many entries it has.
    pub(super) fn finish(mut self) -> io::Result<(W, usize)> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.flush()?;
        Ok((self.out, self.entries))
    }
}

fn bad() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what the engine packed is not an archive")
}

/// Reads a whole block; `false` at the end.
fn fill(packed: &mut impl Read, block: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < block.len() {
        match packed.read(&mut block[filled..])? {
            0 if filled == 0 => return Ok(false),
            0 => return Err(bad()),
            count => filled += count,
        }
    }
    Ok(true)
}

fn padding(size: u64) -> usize {
    usize::try_from((512 - size % 512) % 512).unwrap_or_default()
}

/// The data of a header that holds no file.
fn held(packed: &mut impl Read, size: u64) -> io::Result<Vec<u8>> {
    if size > LARGEST_HEADER {
        return Err(bad());
    }
    let data = held_exactly(packed, usize::try_from(size).map_err(|_| bad())?)?;
    held_exactly(packed, padding(size))?;
    Ok(data)
}

fn held_exactly(packed: &mut impl Read, size: usize) -> io::Result<Vec<u8>> {
    let mut data = vec![0; size];
    packed.read_exact(&mut data)?;
    Ok(data)
}

/// `LENGTH KEY=VALUE\n`, again and again.
fn records(mut data: &[u8]) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut records = BTreeMap::new();
    while !data.is_empty() {
        let space = data.iter().position(|byte| *byte == b' ').ok_or_else(bad)?;
        let length = std::str::from_utf8(&data[..space]).ok().and_then(|length| length.parse::<usize>().ok());
        let length = length.filter(|length| (space + 2..=data.len()).contains(length)).ok_or_else(bad)?;
        let record = &data[space + 1..length - 1];
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(bad)?;
        let key = String::from_utf8(record[..equals].to_vec()).map_err(|_| bad())?;
        records.insert(key, record[equals + 1..].to_vec());
        data = &data[length..];
    }
    Ok(records)
}

fn terminated(field: &[u8]) -> Vec<u8> {
    field.iter().copied().take_while(|byte| *byte != 0).collect()
}

fn short_name(header: &[u8; BLOCK]) -> Vec<u8> {
    let (prefix, name) = (terminated(&header[345..500]), terminated(&header[..100]));
    let is_posix = &header[257..263] == b"ustar\0";
    if prefix.is_empty() || !is_posix { name } else { [&prefix[..], b"/", &name[..]].concat() }
}

/// An octal number, or a binary one if it is too large for that.
fn number(field: &[u8]) -> io::Result<u64> {
    if field[0] & 0x80 != 0 {
        return field[1..].iter().try_fold(0_u64, |value, byte| {
            value.checked_mul(256).and_then(|value| value.checked_add(u64::from(*byte))).ok_or_else(bad)
        });
    }
    let text = std::str::from_utf8(field).map_err(|_| bad())?;
    let text = text.trim_matches(|c: char| c == '\0' || c == ' ');
    if text.is_empty() { Ok(0) } else { u64::from_str_radix(text, 8).map_err(|_| bad()) }
}

/// Writes the sum of all bytes, with its own field as spaces.
fn seal(header: &mut [u8; BLOCK]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}
