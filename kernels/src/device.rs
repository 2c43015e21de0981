//! The launchers of the device kernels in cuda/, and what they are told: the structs of cuda/calls.h, field by field. Nothing else
//! calls them. Each exists twice, compiled by nvcc for devices (feature `cuda`) and by the host's compiler for the emulated device
//! (feature `testing`); the task says which is meant. Addresses are the device's.

use ggml::DeviceTask;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// Most lanes of a layer.
pub(crate) const MAX_LANES: usize = 3;
/// Most KV heads of a layer.
pub(crate) const MAX_KV_HEADS: usize = 256;
/// Most elements of a head.
pub(crate) const MAX_HEAD_DIM: usize = 256;
/// Most queries of a KV head that [`attend_few`] takes.
pub(crate) const FEW_QUERIES: usize = 16;
/// Queries of a KV head that a block of [`attend_many`] takes.
pub(crate) const TILE_QUERIES: usize = 64;
/// CUDA's number for an argument that is not taken.
pub(crate) const INVALID_VALUE: i32 = 1;
/// CUDA's number for what is not there: this build has no kernels for the device.
const NOT_SUPPORTED: i32 = 801;

/// KV heads that keep the same number of rows: K and V `[head_dim, capacity, heads]`, rows without gaps between them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub k: *mut u8,
    pub v: *mut u8,
    /// Bytes.
    pub k_head_stride: u64,
    /// Bytes.
    pub v_head_stride: u64,
    pub heads: i32,
    /// Rows.
    pub capacity: i32,
    /// Where the lane's `[capacity, heads]` positions begin in the layer's.
    pub first_position: i32,
    pub compensated: i32,
}

/// The lanes of a layer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes {
    pub lanes: [Lane; MAX_LANES],
    pub count: i32,
    pub head_dim: i32,
    pub k_type: i32,
    pub v_type: i32,
    /// Which KV heads of the model the heads are, lane after lane.
    pub kv_heads: [u8; MAX_KV_HEADS],
}

impl Lanes {
    /// No lane yet.
    pub(crate) const NONE: Lanes = Lanes {
        lanes: [Lane {
            k: null_mut(),
            v: null_mut(),
            k_head_stride: 0,
            v_head_stride: 0,
            heads: 0,
            capacity: 0,
            first_position: 0,
            compensated: 0,
        }; MAX_LANES],
        count: 0,
        head_dim: 0,
        k_type: 0,
        v_type: 0,
        kv_heads: [0; MAX_KV_HEADS],
    };
}

/// Writes new rows behind the live ones; k and v are f32 `[head_dim, n_kv_heads, tokens]`, their strides in floats.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppendCall {
    pub to: Lanes,
    pub k: *const f32,
    pub v: *const f32,
    pub k_head_stride: u64,
    pub k_token_stride: u64,
    pub v_head_stride: u64,
    pub v_token_stride: u64,
    /// `[MAX_LANES]`: rows there are.
    pub live: *const i32,
    pub tokens: i32,
    pub unused: i32,
}

/// Writes the new tokens' positions behind those of the live rows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PositionsCall {
    pub to: Lanes,
    pub all: *mut i32,
    /// `[count]`
    pub tokens: *const i32,
    /// `[MAX_LANES]`
    pub live: *const i32,
    pub count: i32,
    pub unused: i32,
}

/// Attends with q f32 `[head_dim, n_kv_heads * group, n_q]` (strides in floats) to live + added rows of each lane.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttendCall {
    pub from: Lanes,
    pub q: *const f32,
    pub q_head_stride: u64,
    pub q_token_stride: u64,
    /// `[MAX_LANES]`
    pub live: *const i32,
    /// `[MAX_LANES]`; unused under ALiBi.
    pub log_weights: *const f32,
    /// Those of the layer's rows under ALiBi, otherwise null.
    pub positions: *const i32,
    /// `[head_dim + 2, group * n_q, shares + n_kv_heads]`, where rows are split.
    pub partials: *mut f32,
    /// `[head_dim, heads, n_q]`
    pub out: *mut f32,
    pub added: i32,
    pub n_kv_heads: i32,
    pub group: i32,
    pub n_q: i32,
    /// At most: for few queries no more are made than the device holds blocks at once. 0 where rows are not split.
    pub shares: i32,
    pub scale: f32,
}

/// Takes rows out of a lane.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct DepartCall {
    pub lane: Lane,
    /// Packed: per head the rows that leave, then per head the moves, pairs (to, from).
    pub lists: *const i32,
    /// `[head_dim, heads, 2]` where the lane is compensated.
    pub sums: *mut f32,
    /// `[capacity, heads]` or null.
    pub received: *mut f32,
    /// Where the rows that leave are kept, or null.
    pub aside: *mut u8,
    pub head_dim: i32,
    pub k_type: i32,
    pub v_type: i32,
    /// Rows that the mean stands for.
    pub count: i32,
}

/// Fills an empty lane from complete rows `[head_dim, rows, n_kv_heads]` of the lane's types.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SelectCall {
    pub to: Lane,
    pub k: *const u8,
    pub v: *const u8,
    /// Bytes.
    pub k_head_stride: u64,
    /// Bytes.
    pub v_head_stride: u64,
    /// Packed: per head the rows that are kept, then per head those that leave.
    pub lists: *const i32,
    pub sums: *mut f32,
    pub head_dim: i32,
    pub k_type: i32,
    pub v_type: i32,
    /// The most rows that a head keeps.
    pub most: i32,
    pub kv_heads: [u8; MAX_KV_HEADS],
}

/// Keeps the queries f32 `[head_dim, heads, tokens]` of the last tokens in `ring` `[head_dim, heads, window]`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RememberCall {
    pub q: *const f32,
    pub q_head_stride: u64,
    pub q_token_stride: u64,
    /// The position of the last token.
    pub last: *const i32,
    pub ring: *mut f32,
    pub head_dim: i32,
    pub heads: i32,
    pub tokens: i32,
    pub window: i32,
}

/// Measures `count` rows of each of some heads of a K or V tensor: `[count, heads]`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasureCall {
    pub rows: *const u8,
    /// Bytes.
    pub head_stride: u64,
    /// Packed: per looked-at head the rows.
    pub lists: *const i32,
    pub out: *mut f32,
    pub ty: i32,
    pub head_dim: i32,
    pub heads: i32,
    pub count: i32,
    /// 0 norm, 1 squared norm, 2 largest, 3 spread, 4 spread with the partition its own reference.
    pub what: i32,
    pub lag: i32,
    /// Numbers of the looked-at heads in the tensor.
    pub which: [u8; MAX_KV_HEADS],
}

/// Adds up what rows receive from the queries of some tokens: of the last of a computation (`live` is not null), or of those at
/// positions `start ..` in a ring.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedCall {
    pub k: *const u8,
    /// Bytes.
    pub k_head_stride: u64,
    /// `[head_dim, query heads, tokens]`, strides in floats.
    pub q: *const f32,
    pub q_head_stride: u64,
    pub q_token_stride: u64,
    /// Rows of the lane before the tokens' own.
    pub live: *const i32,
    /// Of row 0 where the lane is compensated, otherwise null.
    pub log_weight: *const f32,
    /// The position of the last token.
    pub last: *const i32,
    /// Under ALiBi: those of the rows, `[capacity, heads of the lane]`.
    pub positions: *const i32,
    /// Window, packed: per looked-at head the positions of its rows.
    pub lists: *const i32,
    /// `[2, splits, tokens * group, heads]`
    pub stats: *mut f32,
    /// `[capacity, heads of the lane]`; window: `[first + rows, group, heads]`.
    pub out: *mut f32,
    pub k_type: i32,
    pub head_dim: i32,
    pub heads: i32,
    pub model_heads: i32,
    pub group: i32,
    pub capacity: i32,
    /// Rows behind the live ones; window: rows with a position.
    pub added: i32,
    /// Window: rows before the first with a position.
    pub first: i32,
    /// Tokens of q.
    pub all_tokens: i32,
    /// Tokens that watch.
    pub tokens: i32,
    pub start: i32,
    pub replace: i32,
    pub alibi: i32,
    /// 0 one, 1 entropy, 2 literal.
    pub gain: i32,
    pub budget: i32,
    pub splits: i32,
    pub scale: f32,
    /// Window: log-weight of row 0 where `first` is not 0.
    pub row_weight: f32,
    /// Numbers of the looked-at heads in the tensor, and in the model.
    pub which: [u8; MAX_KV_HEADS],
    pub kv_heads: [u8; MAX_KV_HEADS],
}

/// Numbers of heads as the calls have them.
pub(crate) fn heads(numbers: &[u32]) -> Result<[u8; MAX_KV_HEADS], i32> {
    let mut heads = [0; MAX_KV_HEADS];
    if numbers.len() > MAX_KV_HEADS {
        return Err(INVALID_VALUE);
    }
    for (to, number) in heads.iter_mut().zip(numbers) {
        *to = u8::try_from(*number).map_err(|_| INVALID_VALUE)?;
    }
    Ok(heads)
}

// The C++ side asserts the same numbers.
const _: () = {
    assert!(size_of::<Lane>() == 48);
    assert!(size_of::<Lanes>() == 416);
    assert!(size_of::<AppendCall>() == 480);
    assert!(size_of::<PositionsCall>() == 448);
    assert!(size_of::<AttendCall>() == 504);
    assert!(size_of::<DepartCall>() == 96);
    assert!(size_of::<SelectCall>() == 368);
    assert!(size_of::<RememberCall>() == 56);
    assert!(size_of::<MeasureCall>() == 312);
    assert!(size_of::<ReceivedCall>() == 680);
};

type Launcher<Call> = unsafe extern "C" fn(*const Call, *mut c_void) -> c_int;

/// Defines launchers: the struct they take, and their names in the two builds.
macro_rules! launchers {
    ($($(#[$doc:meta])* $name:ident($call:ty): $cuda:ident, $emulated:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The addresses in `call` are the device's and cover the shapes that go with them until the work is done.
        pub(crate) unsafe fn $name(task: &DeviceTask, call: &$call) -> Result<(), i32> {
            #[cfg(feature = "cuda")]
            unsafe extern "C" {
                fn $cuda(call: *const $call, stream: *mut c_void) -> c_int;
            }
            #[cfg(feature = "testing")]
            unsafe extern "C" {
                fn $emulated(call: *const $call, stream: *mut c_void) -> c_int;
            }
            #[cfg(feature = "cuda")]
            const CUDA: Option<Launcher<$call>> = Some($cuda);
            #[cfg(not(feature = "cuda"))]
            const CUDA: Option<Launcher<$call>> = None;
            #[cfg(feature = "testing")]
            const EMULATED: Option<Launcher<$call>> = Some($emulated);
            #[cfg(not(feature = "testing"))]
            const EMULATED: Option<Launcher<$call>> = None;

            let launcher = if task.emulated() { EMULATED } else { CUDA };
            // SAFETY: the caller's promise; the struct is copied before the launcher returns.
            let error = launcher.map_or(NOT_SUPPORTED, |launch| unsafe { launch(call, task.stream()) });
            if error == 0 { Ok(()) } else { Err(error) }
        }
    )*};
}

launchers! {
    /// Rows behind the live ones.
    append(AppendCall): longhand_cuda_append, longhand_emulated_append;
    /// Positions behind those of the live rows.
    append_positions(PositionsCall): longhand_cuda_append_positions, longhand_emulated_append_positions;
    /// Attention of few queries, phase 1: the partials.
    attend_few(AttendCall): longhand_cuda_attend_few, longhand_emulated_attend_few;
    /// Attention of many queries: the result, or the partials where rows are split.
    attend_many(AttendCall): longhand_cuda_attend_many, longhand_emulated_attend_many;
    /// The result from the partials.
    combine(AttendCall): longhand_cuda_combine, longhand_emulated_combine;
    /// Rows taken out of a lane.
    depart(DepartCall): longhand_cuda_depart, longhand_emulated_depart;
    /// A lane filled from complete rows.
    select(SelectCall): longhand_cuda_select, longhand_emulated_select;
    /// Queries kept in a ring.
    remember(RememberCall): longhand_cuda_remember, longhand_emulated_remember;
    /// Rows measured.
    measure(MeasureCall): longhand_cuda_measure, longhand_emulated_measure;
    /// Attention that rows receive.
    received(ReceivedCall): longhand_cuda_received, longhand_emulated_received;
}
