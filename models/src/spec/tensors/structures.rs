//! All tensors with their shapes, in the order of computation.

/// Declares structures of tensors, generic over what they hold for each, and gives them maps over all of it. A field is
/// `one` tensor, or `maybe` one; with a name behind it, a structure of tensors. A variant of an enum is a structure.
macro_rules! tensors {
    () => {};
    ($(#[$doc:meta])* struct $name:ident { $($fields:tt)* } $($rest:tt)*) => {
        tensors!(@typed $name [$(#[$doc])*] {} {} $($fields)*);
        tensors!($($rest)*);
    };
    ($(#[$doc:meta])* enum $name:ident { $($variants:tt)* } $($rest:tt)*) => {
        tensors!(@enum $(#[$doc])* $name { $($variants)* });
        tensors!($($rest)*);
    };

    // Gives each field its type, one after the other: `derive` refuses types that are macros.
    (@typed $name:ident $doc:tt { $($typed:tt)* } { $($kinds:tt)* }
        $(#[$about:meta])* $field:ident: one, $($rest:tt)*) => {
        tensors!(@typed $name $doc
            { $($typed)* $(#[$about])* pub $field: T, } { $($kinds)* $field: one, } $($rest)*);
    };
    (@typed $name:ident $doc:tt { $($typed:tt)* } { $($kinds:tt)* }
        $(#[$about:meta])* $field:ident: maybe, $($rest:tt)*) => {
        tensors!(@typed $name $doc
            { $($typed)* $(#[$about])* pub $field: Option<T>, } { $($kinds)* $field: maybe, } $($rest)*);
    };
    (@typed $name:ident $doc:tt { $($typed:tt)* } { $($kinds:tt)* }
        $(#[$about:meta])* $field:ident: one $part:ident, $($rest:tt)*) => {
        tensors!(@typed $name $doc
            { $($typed)* $(#[$about])* pub $field: $part<T>, } { $($kinds)* $field: one $part, } $($rest)*);
    };
    (@typed $name:ident $doc:tt { $($typed:tt)* } { $($kinds:tt)* }
        $(#[$about:meta])* $field:ident: maybe $part:ident, $($rest:tt)*) => {
        tensors!(@typed $name $doc
            { $($typed)* $(#[$about])* pub $field: Option<$part<T>>, } { $($kinds)* $field: maybe $part, }
            $($rest)*);
    };
    (@typed $name:ident [$($doc:tt)*] { $($typed:tt)* } {
        $($field:ident: $kind:ident $($part:ident)?,)*
    }) => {
        $($doc)*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name<T> { $($typed)* }

        impl<T> $name<T> {
            /// Applies `f` to every tensor, in the order of computation. Returns the first error.
            pub fn try_map<U, E>(self, f: &mut impl FnMut(T) -> Result<U, E>) -> Result<$name<U>, E> {
                Ok($name { $($field: tensors!(@map self.$field, f, $kind $($part)?),)* })
            }

            /// The same structure with references.
            pub fn as_ref(&self) -> $name<&T> {
                $name { $($field: tensors!(@borrow self.$field, as_ref, (&self.$field), $kind $($part)?),)* }
            }

            /// The same structure with references through which tensors are changed.
            pub fn as_mut(&mut self) -> $name<&mut T> {
                $name { $($field: tensors!(@borrow self.$field, as_mut, (&mut self.$field), $kind $($part)?),)* }
            }
        }
    };
    (@map $value:expr, $f:ident, one) => { $f($value)? };
    (@map $value:expr, $f:ident, maybe) => { $value.map(&mut *$f).transpose()? };
    (@map $value:expr, $f:ident, one $part:ident) => { $value.try_map($f)? };
    (@map $value:expr, $f:ident, maybe $part:ident) => { $value.map(|part| part.try_map($f)).transpose()? };
    (@borrow $value:expr, $borrow:ident, $reference:tt, one) => { $reference };
    (@borrow $value:expr, $borrow:ident, $reference:tt, maybe $($part:ident)?) => {
        $value.$borrow()$(.map($part::$borrow))?
    };
    (@borrow $value:expr, $borrow:ident, $reference:tt, one $part:ident) => { $value.$borrow() };

    (@enum $(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident($part:ident),)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name<T> {
            $($(#[$about])* $variant(Box<$part<T>>),)*
        }

        impl<T> $name<T> {
            /// Applies `f` to every tensor, in the order of computation. Returns the first error.
            pub fn try_map<U, E>(self, f: &mut impl FnMut(T) -> Result<U, E>) -> Result<$name<U>, E> {
                Ok(match self { $($name::$variant(part) => $name::$variant(Box::new(part.try_map(f)?)),)* })
            }

            /// The same structure with references.
            pub fn as_ref(&self) -> $name<&T> {
                match self { $($name::$variant(part) => $name::$variant(Box::new($part::as_ref(part))),)* }
            }

            /// The same structure with references through which tensors are changed.
            pub fn as_mut(&mut self) -> $name<&mut T> {
                match self { $($name::$variant(part) => $name::$variant(Box::new($part::as_mut(part))),)* }
            }
        }
    };
}

/// All tensors of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTensors<T> {
    /// Those before the layers.
    pub input: InputTensors<T>,
    /// The layers from first to last.
    pub layers: Vec<LayerTensors<T>>,
    /// Those after the layers.
    pub output: OutputTensors<T>,
}

// rustfmt does not look into macros.
tensors! {
    /// The tensors before the layers.
    struct InputTensors {
        /// `[n_embd, n_vocab]`: row i is token i.
        token_embd: one,
        /// `[n_embd, n_ctx_train]`: row i is added to the embedding of the token at position i.
        position_embd: maybe,
        /// `[n_embd]`: weights of the norm of the embeddings.
        norm: maybe,
        /// `[n_embd]`: its bias.
        norm_bias: maybe,
        /// `[n_layers * per_layer_width, n_vocab]`: row i has the embeddings that the layers have of token i.
        per_layer_embd: maybe,
        /// `[per_layer_width]`: weights of the norm of what is added to these embeddings.
        per_layer_norm: maybe,
        /// `[rope.n_dims / 2]`: divide RoPE's frequencies.
        rope_freqs: maybe,
        /// `[rope.n_dims / 2]`: the same, where the context is at most that of the original training.
        rope_short: maybe,
        /// `[rope.n_dims / 2]`: the same, for longer contexts.
        rope_long: maybe,
    }

    /// The tensors after the layers.
    struct OutputTensors {
        /// `[n_embd]`: weights of the norm before the output matrix.
        norm: one,
        /// `[n_embd]`: its bias.
        norm_bias: maybe,
        /// `[n_embd, n_vocab]`; `None` if the token embedding is used instead.
        matrix: maybe,
    }

    /// The tensors of a layer.
    struct LayerTensors {
        /// `[n_embd]`: weights of the norm before attention.
        attn_norm: maybe,
        /// `[n_embd]`: its bias.
        attn_norm_bias: maybe,
        /// Attention, or what a recurrent layer has in its place.
        mixer: one MixerTensors,
        /// `[n_embd]`: weights of the norm after attention.
        attn_post_norm: maybe,
        /// `[n_embd]`: weights of the norm before the feed-forward network.
        ffn_norm: maybe,
        /// `[n_embd]`: its bias.
        ffn_norm_bias: maybe,
        /// The feed-forward network, or the experts.
        network: one NetworkTensors,
        /// `[n_embd]`: weights of the norm after the feed-forward network.
        ffn_post_norm: maybe,
        /// What is added from the layer's own embeddings.
        per_layer: maybe PerLayerTensors,
        /// `[1]`: factor of the residual stream after the layer.
        output_scale: maybe,
    }

    /// What a layer has to add its own embeddings of the tokens to the residual stream.
    struct PerLayerTensors {
        /// `[n_embd, per_layer_width]`: what is added to these embeddings, from the model's embeddings.
        input: one,
        /// `[n_embd, per_layer_width]`: the gate, from the residual stream.
        gate: one,
        /// `[per_layer_width, n_embd]`.
        output: one,
        /// `[n_embd]`: weights of the norm of what is added.
        post_norm: one,
    }

    /// What a layer has before its feed-forward network.
    enum MixerTensors {
        /// Attention.
        Attention(AttentionTensors),
        /// The gated delta rule.
        Recurrent(RecurrentTensors),
    }

    /// The tensors of attention.
    struct AttentionTensors {
        /// `[n_embd, n_heads * head_dim]`. With latent attention `[n_embd or query_rank, n_heads * query]`. With a gate
        /// twice as many rows: each head's query, then its gate.
        wq: one,
        /// `[n_embd, n_kv_heads * head_dim]`. `None`: the layer attends to the keys and values of an earlier one.
        wk: maybe,
        /// `[n_embd, n_kv_heads * head_dim]`. With latent attention `[rank, value, n_heads]`: makes the heads' values.
        /// `None`: as `wk`, or values come from the product with `wk`.
        wv: maybe,
        /// What latent attention has beside these.
        latent: maybe LatentTensors,
        /// `[n_heads * head_dim]`.
        bq: maybe,
        /// `[n_kv_heads * head_dim]`.
        bk: maybe,
        /// `[n_kv_heads * head_dim]`.
        bv: maybe,
        /// `[head_dim]`, `[head_dim, n_heads]` or `[n_heads * head_dim]`: weights of the norm of Q.
        q_norm: maybe,
        /// `[head_dim]`, `[head_dim, n_kv_heads]` or `[n_kv_heads * head_dim]`: weights of the norm of K.
        k_norm: maybe,
        /// `[n_heads]`: a logit without a row, which takes its share of a query head's attention.
        sink_logits: maybe,
        /// `[n_heads * head_dim, n_embd]`, with latent attention `[n_heads * value, n_embd]`.
        wo: one,
        /// `[n_embd]`.
        bo: maybe,
    }

    /// The tensors that latent attention has beside those of other attention.
    struct LatentTensors {
        /// `[n_embd, query_rank]`: what the queries come from.
        query_down: maybe,
        /// `[query_rank]`: weights of its norm.
        query_norm: maybe,
        /// `[rank]`: weights of the latent vector's norm.
        norm: one,
        /// `[plain, rank, n_heads]`: takes a head's query to the latent vectors.
        key_up: one,
    }

    /// The tensors of a recurrent layer: see [`RecurrentLayers`](crate::spec::RecurrentLayers) for its sizes.
    struct RecurrentTensors {
        /// `[n_embd, channels]`: queries, keys and values before the convolution.
        qkv: one,
        /// `[n_embd, value_dim]`: its SiLU scales the normed output.
        gate: one,
        /// `[conv_kernel, channels]`: weights of the convolution, the oldest token first.
        conv: one,
        /// `[n_embd, value_heads]` or, for both in one matrix, `[n_embd, 2 * value_heads]`: the strength of an update.
        beta: one,
        /// `[n_embd, value_heads]`: how fast the state decays. `None`: in `beta`.
        alpha: maybe,
        /// `[value_heads]`: added to what `alpha` gives.
        alpha_bias: one,
        /// `[value_heads]`: factor of the decay; negative.
        decay: one,
        /// `[head_dim]`: weights of the norm of a head's output.
        norm: one,
        /// `[value_dim, n_embd]`.
        output: one,
    }

    /// What a layer has after attention.
    enum NetworkTensors {
        /// A feed-forward network.
        Dense(DenseTensors),
        /// Experts and their router.
        Experts(ExpertTensors),
    }

    /// The tensors of a feed-forward network of width n_ff, or of an expert that every token uses.
    struct DenseTensors {
        /// `[n_embd, n_ff]`: its product, after the activation function, multiplies that of `up`.
        gate: maybe,
        /// `[n_ff]`.
        gate_bias: maybe,
        /// `[n_embd, n_ff]`.
        up: one,
        /// `[n_ff]`.
        up_bias: maybe,
        /// `[n_ff, n_embd]`.
        down: one,
        /// `[n_embd]`.
        down_bias: maybe,
    }

    /// The tensors of the experts of a layer, each of width n_ff, and of their router.
    struct ExpertTensors {
        /// `[n_embd, count]`: its product has a logit for each expert.
        router: one,
        /// `[count]`.
        router_bias: maybe,
        /// `[count]`: added to the weights where experts are chosen, and only there.
        selection_bias: maybe,
        /// `[n_embd, n_ff, count]`: as in [`DenseTensors`]. `None`: in `up`, or there is none.
        gate: maybe,
        /// `[n_ff, count]`.
        gate_bias: maybe,
        /// `[n_embd, n_ff, count]`, with the gates `[n_embd, 2 * n_ff, count]`: those of an expert, then its other rows.
        up: one,
        /// `[n_ff, count]`.
        up_bias: maybe,
        /// `[n_ff, n_embd, count]`.
        down: one,
        /// `[n_embd, count]`.
        down_bias: maybe,
        /// `[n_embd]`: the sigmoid of its product scales what the shared expert gives.
        shared_gate: maybe,
        /// The expert that every token uses, or the network that the experts are beside.
        shared: maybe DenseTensors,
        /// The norms of experts that are beside a network.
        separate: maybe SeparateNorms,
    }

    /// The norms and scales of experts that are beside a layer's feed-forward network. They and their router read what the
    /// network's norm reads.
    struct SeparateNorms {
        /// `[n_embd]`: scale of the router's normed input.
        router_scale: one,
        /// `[count]`: factors of the experts' weights.
        expert_scale: one,
        /// `[n_embd]`: weights of the norm before the experts.
        norm: one,
        /// `[n_embd]`: weights of the norm after the experts.
        post_norm: one,
        /// `[n_embd]`: weights of the norm after the network.
        network_post_norm: one,
    }
}

impl<T> ModelTensors<T> {
    /// Applies `f` to every tensor, in the order of computation. Returns the first error.
    pub fn try_map<U, E>(self, mut f: impl FnMut(T) -> Result<U, E>) -> Result<ModelTensors<U>, E> {
        Ok(ModelTensors {
            input: self.input.try_map(&mut f)?,
            layers: self.layers.into_iter().map(|l| l.try_map(&mut f)).collect::<Result<_, _>>()?,
            output: self.output.try_map(&mut f)?,
        })
    }

    /// Applies `f` to every tensor, in the order of computation.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> ModelTensors<U> {
        let mapped = self.try_map(|t| Ok::<U, std::convert::Infallible>(f(t)));
        match mapped {
            Ok(tensors) => tensors,
        }
    }

    /// Calls `f` with a reference to every tensor, in the order of computation.
    pub fn for_each(&self, f: impl FnMut(&T)) {
        self.as_ref().map(f);
    }

    /// The same structure with references.
    pub fn as_ref(&self) -> ModelTensors<&T> {
        ModelTensors {
            input: self.input.as_ref(),
            layers: self.layers.iter().map(LayerTensors::as_ref).collect(),
            output: self.output.as_ref(),
        }
    }
}

impl<T> LayerTensors<T> {
    /// The matrices, in the order of computation. Those of all experts are one. Those of the heads of latent attention
    /// are left out.
    pub fn matrices(&self) -> impl Iterator<Item = &T> {
        self.as_ref().into_matrices()
    }

    /// The matrices as places, in the order of [`LayerTensors::matrices`].
    pub fn matrices_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.as_mut().into_matrices()
    }

    fn into_matrices(self) -> impl Iterator<Item = T> {
        let mixer = match self.mixer {
            MixerTensors::Attention(part) => {
                let AttentionTensors { wq, wk, wv, latent, wo, .. } = *part;
                let wv = wv.filter(|_| latent.is_none());
                let query_down = latent.and_then(|latent| latent.query_down);
                vec![query_down, Some(wq), wk, wv, Some(wo)]
            }
            MixerTensors::Recurrent(part) => vec![Some(part.qkv), Some(part.gate), Some(part.output)],
        };
        let of_dense = |DenseTensors { gate, up, down, .. }| [gate, Some(up), Some(down)];
        let (network, shared) = match self.network {
            NetworkTensors::Dense(part) => (of_dense(*part), None),
            NetworkTensors::Experts(part) => {
                let ExpertTensors { gate, up, down, shared, .. } = *part;
                ([gate, Some(up), Some(down)], shared.map(of_dense))
            }
        };
        mixer.into_iter().chain(network).chain(shared.into_iter().flatten()).flatten()
    }
}

impl<T> MixerTensors<T> {
    /// The tensors of attention. `None`: the layer is recurrent.
    pub fn attention(&self) -> Option<&AttentionTensors<T>> {
        match self {
            MixerTensors::Attention(part) => Some(part),
            MixerTensors::Recurrent(_) => None,
        }
    }

    /// The last matrix.
    pub fn output(&self) -> &T {
        match self {
            MixerTensors::Attention(part) => &part.wo,
            MixerTensors::Recurrent(part) => &part.output,
        }
    }
}

impl<T> NetworkTensors<T> {
    /// The matrix before the activation function that is not the gate.
    pub fn up(&self) -> &T {
        match self {
            NetworkTensors::Dense(dense) => &dense.up,
            NetworkTensors::Experts(experts) => &experts.up,
        }
    }

    /// The last matrix.
    pub fn down(&self) -> &T {
        match self {
            NetworkTensors::Dense(dense) => &dense.down,
            NetworkTensors::Experts(experts) => &experts.down,
        }
    }
}
