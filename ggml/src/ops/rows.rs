//! Rows of tables that are taken and written by their numbers, and the memory of a tensor seen as something else.
//!
//! ggml aborts, or accesses other memory, where a number has no row. So numbers are of one of two kinds: the caller writes
//! them, and they are looked at there ([`selection`](crate::selection)); or the graph computes them, and its last operations
//! bound them. Operations that take numbers of rows take no others.

use ggml_sys as sys;

use super::{FLOATS, MAX_WHOLE, is_activation};
use crate::{Context, Operand, Shape, Tensor, Type};

/// Whether these numbers select rows of a table of `rows` rows: the caller writes them, or they are bounded.
fn are_numbers(numbers: &Tensor, rows: usize) -> bool {
    numbers.ty() == Type::I32
        && numbers.is_contiguous()
        && numbers.strides()[0] == size_of::<i32>()
        && (numbers.is_written_by_caller() || are_bounded(numbers, rows))
}

/// Whether these numbers are results of [`Context::bounded_rows`], or some of them, for a table of at most `rows` rows.
fn are_bounded(numbers: &Tensor, rows: usize) -> bool {
    // SAFETY: fields of live descriptors that never change: those of an operation's result and of its operand.
    unsafe {
        let cast = numbers.root().as_ptr();
        if (*cast).op != sys::GGML_OP_CPY || (*cast).src[1] != cast {
            return false;
        }
        let clamped = (*cast).src[0];
        let bounds =
            [(*clamped).op_params[0], (*clamped).op_params[1]].map(|bits| f32::from_bits(bits as u32));
        (*clamped).op == sys::GGML_OP_CLAMP
            && (*clamped).type_ == sys::GGML_TYPE_F32
            && bounds[0] >= 0.0
            && bounds[1] >= bounds[0]
            && (bounds[1] as usize) < rows.min(MAX_WHOLE as usize)
    }
}

/// Whether the strides of all dimensions, also those of extent 1, are those of a tensor without gaps.
fn is_packed(a: &Tensor) -> bool {
    let ([n0, n1, n2, _], ty) = (a.shape().0, a.ty());
    let row = n0 / ty.block_elements() * ty.block_bytes();
    a.strides() == [ty.block_bytes(), row, row * n1, row * n1 * n2]
}

impl Context {
    /// Rows `indices` `[n]` (i32) of `table` `[d, rows]` as f32: `[d, n]`; with a third dimension
    /// [d, rows, h] and [n, h], per h. Integer tables stay integer. `indices` is written before the graph is
    /// computed, and not by it. The numbers are looked at when they are written. A number without a row is an
    /// error of the computation ([`Error::Row`](crate::Error::Row)). Or `indices` are results of
    /// [`Context::row_numbers`] or [`Context::bounded_rows`] for a table of as many rows.
    pub fn get_rows(&self, table: &Tensor, indices: &Tensor) -> Tensor {
        let (t, i) = (table.shape().0, indices.shape().0);
        let fits = t[2] == i[1]
            && t[3] == i[2]
            && i[3] == 1
            && table.ty().has_rows()
            && table.has_dense_rows()
            && are_numbers(indices, t[1]);
        let rows = self.op("get_rows", &[table, indices], fits, |raw| {
            // SAFETY: live operands, shapes checked.
            unsafe { sys::ggml_get_rows(raw, table.raw.as_ptr(), indices.raw.as_ptr()) }
        });
        self.read_numbers(indices, t[1]);
        rows
    }

    /// Remembers that the graph uses these numbers of rows.
    fn read_numbers(&self, numbers: &Tensor, rows: usize) {
        if numbers.is_written_by_caller() {
            self.select(numbers, rows);
        } else {
            self.read_ids(numbers);
        }
    }

    /// Writes the rows `values` `[d, n, h]` (f32), converted to the type of `table` `[d, rows, h]`, to the rows `numbers`
    /// `[n]`, or `[n, h]`, which are as in [`Context::get_rows`]. A row that is written twice has one of the values. Returns
    /// the table, as operand for what must come after. It may not lie in read-only memory, nor share memory with the values.
    pub fn set_rows(&self, table: &Tensor, values: &Tensor, numbers: &Tensor) -> Tensor {
        let (t, v, n) = (table.shape().0, values.shape().0, numbers.shape().0);
        let has_blocks = table.ty().block_elements() > 1;
        let fits = (t[0], t[2], t[3]) == (v[0], v[2], 1)
            && v[3] == 1
            && n[0] == v[1]
            && (n[1] == 1 || n[1] == v[2])
            && (n[2], n[3]) == (1, 1)
            && (FLOATS.contains(&table.ty()) || has_blocks && table.ty().takes_floats())
            && table.has_dense_rows()
            && is_activation(values)
            && are_numbers(numbers, t[1]);
        let operands = [Operand::Write(table), Operand::Read(values), Operand::Read(numbers)];
        let written = self.op_using("set_rows", &operands, fits, |raw| {
            // SAFETY: live operands, shapes checked.
            unsafe { sys::ggml_set_rows(raw, table.raw.as_ptr(), values.raw.as_ptr(), numbers.raw.as_ptr()) }
        });
        self.read_numbers(numbers, t[1]);
        written
    }

    /// Whole numbers in f32 as numbers of rows of a table of `rows` rows, i32. Those outside become the first or the last.
    pub fn bounded_rows(&self, numbers: &Tensor, rows: usize) -> Tensor {
        let fits =
            is_activation(numbers) && numbers.is_contiguous() && (1..=MAX_WHOLE as usize).contains(&rows);
        let last = rows.clamp(1, MAX_WHOLE as usize) - 1;
        let clamped = self.op("bounded_rows", &[numbers], fits, |raw| {
            // SAFETY: a live operand.
            unsafe { sys::ggml_clamp(raw, numbers.raw.as_ptr(), 0.0, last as f32) }
        });
        self.cast(&clamped, Type::I32)
    }

    /// The numbers of `n` neighbouring rows of a table of `rows` rows, from number `first` `[1]` (i32) on: `[n]` i32.
    /// `first` is written before the graph is computed, and not by it. Where the last one has no row, the computation is an
    /// error ([`Error::Row`](crate::Error::Row)).
    pub fn row_numbers(&self, first: &Tensor, n: usize, rows: usize) -> Tensor {
        let fits = first.ty() == Type::I32
            && first.shape() == Shape::from([1])
            && first.is_written_by_caller()
            && n > 0
            && n <= rows;
        let start = self.op("row_numbers", &[first], fits, |raw| {
            // SAFETY: a live operand.
            unsafe { sys::ggml_cast(raw, first.raw.as_ptr(), sys::GGML_TYPE_F32) }
        });
        self.select(first, rows.saturating_sub(n.saturating_sub(1)));
        self.bounded_rows(&self.add(&self.arange(0, n), &start), rows)
    }

    /// The bytes of `a`, which lie without gaps, as f32 that nothing interprets: for moving them as they are. `shape` has
    /// as many bytes as `a`.
    pub fn words(&self, a: &Tensor, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        // SAFETY: a field of a live descriptor that never changes.
        let offset = unsafe { (*a.raw.as_ptr()).view_offs };
        let fits = is_packed(a)
            && shape.bytes(Type::F32) == Some(a.bytes())
            && offset.is_multiple_of(size_of::<f32>());
        self.op("words", &[a], fits, |raw| {
            let ([n0, n1, n2, n3], [_, s1, s2, s3]) = (a.shape().0.map(|n| n as i64), a.strides());
            let [m0, m1, m2, _] = shape.0;
            // SAFETY: a view of all of a live operand. Its type and shape are changed before anybody has it, to others with
            // the same bytes.
            unsafe {
                let view = sys::ggml_view_4d(raw, a.raw.as_ptr(), n0, n1, n2, n3, s1, s2, s3, 0);
                (*view).type_ = sys::GGML_TYPE_F32;
                (*view).ne = shape.0.map(|n| n as i64);
                (*view).nb = [4, 4 * m0, 4 * m0 * m1, 4 * m0 * m1 * m2];
                view
            }
        })
    }

    /// `a` as it is after `nodes` were computed: an operand for what must come after nodes that write to its memory, or that
    /// read from it. There are at most nine.
    pub fn after(&self, a: &Tensor, nodes: &[&Tensor]) -> Tensor {
        let operands: Vec<&Tensor> = [a].into_iter().chain(nodes.iter().copied()).collect();
        let fits = operands.len() <= sys::GGML_MAX_SRC as usize;
        self.op("after", &operands, fits, |raw| {
            let ([n0, n1, n2, n3], [_, s1, s2, s3]) = (a.shape().0.map(|n| n as i64), a.strides());
            // SAFETY: a view of all of a live operand. ggml computes the operands of a view first, and reads only one.
            unsafe {
                let view = sys::ggml_view_4d(raw, a.raw.as_ptr(), n0, n1, n2, n3, s1, s2, s3, 0);
                (*view).nb = a.strides();
                for (number, node) in (1..).zip(nodes) {
                    (*view).src[number] = node.raw.as_ptr();
                }
                view
            }
        })
    }
}
