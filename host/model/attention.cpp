// Matrix products are oneDNN's and MKL's, over blocks of queries so that about half of the masked part is never
// computed; what lies between two products is one pass of the row kernels. PyTorch 2.11's own CPU kernel multiplies
// tile by tile, which for heads of 32 features in bf16 takes four times as long.
#include "model/attention.hpp"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/chunks.hpp"
#include "model/kernels/tensors.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr int64_t rows_of_task = 16;

struct Shape {
  int64_t B, S, K, R, D;  ///< R heads of queries read one of the K heads of keys

  static Shape of(const Tensor& query, const Tensor& key) {
    return {query.size(0), query.size(1), key.size(2), query.size(2) / key.size(2), query.size(3)};
  }
  int64_t pairs() const { return B * K; }
  float scale() const { return 1.0f / std::sqrt(float(D)); }
};

/// [B,S,K*R,D] -> [B*K,R,S,D]
Tensor head_major(const Tensor& x, const Shape& s) {
  return x.view({s.B, s.S, s.K, -1, s.D}).permute({0, 2, 3, 1, 4}).contiguous().view({s.pairs(), -1, s.S, s.D});
}
/// [B*K,R,S,D] -> [B,S,K*R,D]
Tensor position_major(const Tensor& x, const Shape& s) {
  return x.view({s.B, s.K, -1, s.S, s.D}).permute({0, 3, 1, 2, 4}).contiguous().view({s.B, s.S, -1, s.D});
}

/// G heads of keys from `pair` on, and the n queries from `query` on of each head that reads them; the keys up to the
/// last of those queries count.
struct Block {
  int64_t pair, G, query, n;

  int64_t keys() const { return query + n; }
  Tensor of_queries(const Tensor& x) const {  // [B*K,R,S,...] -> [G,R,n,...]
    return x.narrow(0, pair, G).narrow(2, query, n);
  }
  Tensor rows_of(const Tensor& x) const { return of_queries(x).reshape({G, -1, x.size(3)}); }  // [G,R*n,D]
  Tensor of_keys(const Tensor& x) const { return x.narrow(0, pair, G).narrow(1, 0, keys()); }  // [B*K,S,D] -> [G,k,D]
};

template <class Call>
void for_each_block(const Shape& s, Call call) {
  const int64_t queries = std::min(queries_of_block, s.S);
  const int64_t most = key_heads_of_block(s.R, s.S, at::get_num_threads());
  for (int64_t pair = 0; pair < s.pairs(); pair += most)
    for (int64_t query = 0; query < s.S; query += queries)
      call(Block{pair, std::min(most, s.pairs() - pair), query, std::min(queries, s.S - query)});
}

/// Query times key: product - rest, where rest is what rounding added to a product in bf16.
struct Products {
  Tensor product, rest;  ///< [G,R*n,k]; rest undefined in fp32

  Products(const Tensor& queries, const Tensor& keys) : product(at::bmm(queries, keys.transpose(1, 2))) {
    if (product.scalar_type() == at::kBFloat16) rest = at::baddbmm(product, queries.neg(), keys.transpose(1, 2));
  }
};

/// call(index of the row, scratch [k]) for each row of scores [G,R*n,k].
template <class Call>
void for_each_row(const Tensor& scores, Call call) {
  at::parallel_for(0, scores.size(0) * scores.size(1), rows_of_task, [&](int64_t begin, int64_t end) {
    std::vector<float> scratch(size_t(scores.size(2)));
    for (int64_t row = begin; row < end; ++row) call(row, scratch.data());
  });
}

template <class T>
const T* in_or_null(const Tensor& x, int64_t offset) {
  return x.defined() ? kernels::in<T>(x) + offset : nullptr;
}

/// Shares of the values [G,R*n,k], in the products' memory; log_sums [G,R,n] are written.
Tensor shares_of(Products products, const Block& block, float scale, Tensor log_sums) {
  Tensor sums = at::empty(log_sums.sizes(), log_sums.options());
  kernels::by_type(products.product, [&]<class T>() {
    for_each_row(products.product, [&](int64_t row, float* scratch) {
      const int64_t at_row = row * block.keys();
      kernels::out<float>(sums)[row] = kernels::rows<T>().causal_softmax(
          kernels::out<T>(products.product) + at_row, in_or_null<T>(products.rest, at_row), scale, scratch,
          block.query + row % block.n + 1, block.keys());
    });
  });
  log_sums.copy_(sums);
  return products.product;
}

/// d shares [G,R*n,k] becomes d products in place; returns the shares, in the products' memory.
Tensor through_softmax(Products products, const Block& block, float scale, const Tensor& log_sums, Tensor& d) {
  const Tensor sums = log_sums.contiguous();
  kernels::by_type(products.product, [&]<class T>() {
    for_each_row(products.product, [&](int64_t row, float* scratch) {
      const int64_t at_row = row * block.keys();
      kernels::rows<T>().causal_softmax_backward(
          kernels::out<T>(products.product) + at_row, in_or_null<T>(products.rest, at_row), kernels::out<T>(d) + at_row,
          scale, kernels::in<float>(sums)[row], scratch, block.query + row % block.n + 1, block.keys());
    });
  });
  return products.product;
}

struct CausalAttention : Function<CausalAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value) {
    const Shape s = Shape::of(query, key);
    const Tensor q = head_major(query, s), k = head_major(key, s).squeeze(1), v = head_major(value, s).squeeze(1);
    const Tensor log_sums = at::empty({s.pairs(), s.R, s.S}, q.options().dtype(at::kFloat));
    Tensor out = at::empty_like(q);
    for_each_block(s, [&](const Block& block) {
      const Tensor shares = shares_of(Products(block.rows_of(q), block.of_keys(k)), block, s.scale(),
                                      log_sums.narrow(0, block.pair, block.G).narrow(2, block.query, block.n));
      Tensor part = block.of_queries(out);
      part.copy_(at::bmm(shares, block.of_keys(v)).view(part.sizes()));
    });
    context->save_for_backward({q, k, v, log_sums});
    context->saved_data["batch"] = s.B;
    return position_major(out, s).flatten(2);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &log_sums = saved[3];
    const int64_t B = context->saved_data["batch"].toInt();
    const Shape s{B, q.size(2), q.size(0) / B, q.size(1), q.size(3)};
    const Tensor d_out = head_major(gradients[0].contiguous(), s);
    Tensor dq = at::empty_like(q);
    const auto wide = q.options().dtype(at::kFloat);  // a key is read by many blocks: their sum is rounded once
    Tensor dk = at::zeros(k.sizes(), wide), dv = at::zeros(v.sizes(), wide);
    for_each_block(s, [&](const Block& block) {
      const Tensor queries = block.rows_of(q), keys = block.of_keys(k), d_rows = block.rows_of(d_out);
      Tensor d = at::bmm(d_rows, block.of_keys(v).transpose(1, 2));
      const Tensor shares = through_softmax(Products(queries, keys), block, s.scale(),
                                            log_sums.narrow(0, block.pair, block.G).narrow(2, block.query, block.n), d);
      block.of_keys(dv).add_(at::bmm(shares.transpose(1, 2), d_rows));
      block.of_keys(dk).add_(at::bmm(d.transpose(1, 2), queries));
      Tensor part = block.of_queries(dq);
      part.copy_(at::bmm(d, keys).view(part.sizes()));
    });
    const auto narrow = [&](const Tensor& x) { return position_major(x.to(q.scalar_type()).unsqueeze(1), s); };
    return {position_major(dq, s), narrow(dk), narrow(dv)};
  }
};

}  // namespace

Tensor causal_attention(const Tensor& query, const Tensor& key, const Tensor& value) {
  if (kernels::takes(query)) return CausalAttention::apply(query, key, value);
  const Tensor mixed = at::scaled_dot_product_attention(
      query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), /*attn_mask=*/{}, /*dropout_p=*/0.0,
      /*is_causal=*/true, /*scale=*/std::nullopt, /*enable_gqa=*/query.size(2) != key.size(2));
  return mixed.transpose(1, 2).flatten(2);
}

}  // namespace wmtp
