//! Changes of a PDF before it is read, added as PDFs are changed: at the end of the file.

use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::hayro_syntax::object::Dict;
use memchr::memmem;

/// The numbers of objects that are added begin here; the largest that PDF allows is 8,388,607.
pub(in crate::pdf) const FIRST_OBJECT: usize = 8_000_000;
/// Objects that are added.
pub(in crate::pdf) const MAX_OBJECTS: usize = 10_000;

/// Objects of a PDF and their numbers: new ones, and others in place of those that the file has.
pub(in crate::pdf) type Objects = Vec<(usize, Vec<u8>)>;

/// Whether a PDF can be changed. In an encrypted one, what is added would have to be encrypted too.
pub(in crate::pdf) fn are_possible(pdf: &Pdf) -> bool {
    memmem::find(pdf.data().as_ref(), b"/Encrypt").is_none()
}

/// A dictionary without these keys (`/Key`), and without its end. What belongs to a key gets a name that means nothing.
pub(in crate::pdf) fn without(dictionary: &Dict<'_>, keys: &[&[u8]]) -> Vec<u8> {
    let mut changed = dictionary.data().to_vec();
    for key in keys {
        let places: Vec<usize> = memmem::find_iter(&changed, key).collect();
        places.into_iter().for_each(|at| changed[at + 1] = b'X');
    }
    if changed.ends_with(b">>") {
        changed.truncate(changed.len() - 2);
    }
    changed
}

/// The file with these objects: objects, where they are, and what remains of the trailer.
pub(in crate::pdf) fn add(pdf: &Pdf, objects: &Objects) -> Vec<u8> {
    let (data, root) = (pdf.data().as_ref(), pdf.xref().root_id());
    let mut file = data.to_vec();
    let mut places = String::from("xref\n");
    for (number, object) in objects {
        file.push(b'\n');
        places += &format!("{number} 1\n{:010} 00000 n \n", file.len());
        file.extend(format!("{number} 0 obj\n").bytes());
        file.extend(object);
        file.extend(b"\nendobj\n");
    }
    let start = file.len();
    let previous = memmem::rfind(data, b"startxref").and_then(|at| {
        let after = String::from_utf8_lossy(&data[at + 9..data.len().min(at + 40)]).into_owned();
        after.split_ascii_whitespace().next()?.parse::<usize>().ok()
    });
    let previous = previous.map(|at| format!(" /Prev {at}")).unwrap_or_default();
    let size = FIRST_OBJECT + MAX_OBJECTS;
    let root = format!("{} {}", root.obj_number, root.gen_number);
    file.extend(
        format!("{places}trailer\n<< /Size {size} /Root {root} R{previous} >>\nstartxref\n{start}\n%%EOF\n")
            .bytes(),
    );
    file
}
