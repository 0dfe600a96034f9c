#include "step/micro_batch_context.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "plugins/torch/signals.hpp"

namespace wmtp {
namespace {

uint32_t sum_of(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) return 0;
  const at::Tensor dense = tensor.detach().contiguous();
  return crc32c(dense.const_data_ptr(), size_t(dense.nbytes()));
}

/// Safe in file names, pages and other programs: parts between '/', none of them empty, "." or "..".
bool is_metric_name(const std::string& name) {
  static const std::string allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  if (name.size() > 120) return false;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    const std::string part = name.substr(at, end - at);
    if (part.empty() || part == "." || part == ".." || part.find_first_not_of(allowed) != std::string::npos)
      return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

void GivenTensors::add(const std::string& name, const at::Tensor& tensor) {
  if (tensor.defined()) given_.push_back({name, tensor, int64_t(tensor._version()), sum_of(tensor)});
}

std::string GivenTensors::changed() const {
  for (const Given& one : given_)
    if (int64_t(one.tensor._version()) != one.writes || sum_of(one.tensor) != one.sum) return one.name;
  return "";
}

MicroBatchContext::MicroBatchContext(const RunContext& run_context, const StepContext& step_context,
                                     const MicroBatch& micro, std::map<std::string, Tensor> known)
    : run_context_(run_context), step_context_(step_context), micro_(micro), known_(std::move(known)) {
  for (const auto& [name, of_tokens] : micro.signals)
    known_[name] = at::constant_pad_nd(of_tokens.narrow(1, 1, of_tokens.size(1) - 1), {0, 1});
}

void MicroBatchContext::set_alignment(Tensor cosines) {
  known_[to_text(Signal::policy_alignment)] = std::move(cosines);
}

Tensor MicroBatchContext::for_head(const Tensor& signal, int64_t head) const {
  if (signal.dim() == 3) return signal.select(2, head - 1);
  const Tensor& next_token = signal;
  const int64_t away = offset(head) - 1, count = next_token.size(1) - 1 - away;
  Tensor aligned = at::zeros_like(next_token);
  if (count > 0) aligned.narrow(1, 0, count).copy_(next_token.narrow(1, away, count));
  return aligned;
}

Tensor MicroBatchContext::align_to_context(const Tensor& signal) const {
  if (weigh_context_.when == When::head) return for_head(signal, weigh_context_.head) * weigh_context_.valid;
  if (weigh_context_.when == When::token) {
    const bool has_own_heads = signal.dim() == 3;
    const Tensor head_signal = has_own_heads ? for_head(signal, weigh_context_.head) : signal;
    const int64_t away = has_own_heads ? 0 : offset(weigh_context_.head) - 1;
    const int64_t first = std::min(weigh_context_.sources.first + away, signal.size(1));
    Tensor rows = head_signal.narrow(1, first, weigh_context_.sources.count).reshape({-1});
    if (weigh_context_.rows.defined()) rows = rows.index_select(0, weigh_context_.rows);
    return rows.narrow(0, weigh_context_.chunk_begin, weigh_context_.valid.size(0)) * weigh_context_.valid;
  }
  if (signal.dim() == 3) return signal * weigh_context_.valid;
  std::vector<Tensor> heads;
  for (int64_t head = 1; head <= run_context_.heads; ++head) heads.push_back(for_head(signal, head));
  return at::stack(heads, -1) * weigh_context_.valid;
}

const Tensor& MicroBatchContext::policy_signal(Signal signal) const {
  static const Tensor none;
  const Scores& policy = weigh_context_.policy;
  return signal == Signal::policy_loss       ? policy.losses
         : signal == Signal::policy_entropy  ? policy.entropies
         : signal == Signal::policy_rank     ? policy.ranks
         : signal == Signal::policy_margin   ? policy.margins
         : signal == Signal::policy_top_mass ? policy.top_masses
                                             : none;
}

/// A target of head k at source s is head 1's at s + k - 1, in the same document. While head 1 is weighed, not all of
/// its tokens are known.
Tensor MicroBatchContext::agreement() const {
  const Tensor& valid = weigh_context_.valid;
  if (weigh_context_.head == 1) return valid.to(at::kFloat);
  return weigh_context_.policy.likeliest.eq(align_to_context(head_1_likeliest_)).logical_and(valid).to(at::kFloat);
}

/// The present loss of a token that no step has read: those of held-out data, too.
Tensor MicroBatchContext::previous_loss() const {
  const Tensor& present = weigh_context_.policy.losses;
  const auto known = known_.find(to_text(Signal::policy_previous_loss));
  if (known == known_.end()) return present;
  const Tensor previous = align_to_context(known->second);
  return at::where(previous.lt(0), present, previous);
}

Tensor MicroBatchContext::signal(Signal signal) const {
  if (signal == Signal::policy_agreement && weigh_context_.policy.likeliest.defined()) return agreement();
  if (signal == Signal::policy_previous_loss && weigh_context_.policy.losses.defined()) return previous_loss();
  if (is_policy_signal(signal) && policy_signal(signal).defined()) return policy_signal(signal);
  return known_signal(to_text(signal));
}

Tensor MicroBatchContext::signal(const ReferenceSignal& signal) const { return known_signal(to_text(signal)); }

Tensor MicroBatchContext::known_signal(const std::string& name) const {
  if (const auto known = known_.find(name); known != known_.end()) return align_to_context(known->second);
  throw Error(ExitStatus::plugin, "plugin reads " + name +
                                      ", which is not available here; declare it in needs() and choose the right When");
}

Tensor MicroBatchContext::value(const ValueSignal& value) const {
  if (!value.is_frozen()) return leaf(value).detach();
  if (const auto known = known_.find(to_text(value)); known != known_.end()) return known->second;
  throw Error(ExitStatus::plugin, "plugin reads " + to_text(value) + ", which it does not declare in needs()");
}

Tensor MicroBatchContext::leaf(const ValueSignal& value) const {
  if (const auto leaf = leaves_.find(value.head()); leaf != leaves_.end()) return leaf->second;
  throw Error(ExitStatus::plugin,
              "plugin reads " + to_text(value) + ", which is not a policy value head declared in needs()");
}

Tensor MicroBatchContext::counts() const {
  return at::tensor(std::vector<double>(step_context_.counts.targets.begin(), step_context_.counts.targets.end()),
                    at::kDouble);
}

Tensor MicroBatchContext::uniform(int64_t stream) const {
  Tensor numbers = at::empty(weigh_context_.valid.sizes(), at::kFloat);
  float* out = numbers.mutable_data_ptr<float>();
  const int64_t B = numbers.size(0), S = numbers.size(1), H = numbers.dim() == 3 ? numbers.size(2) : 1;
  const uint64_t key = name_key("uniform " + std::to_string(stream), uint64_t(run_context_.seed));
  for (int64_t b = 0; b < B; ++b) {
    const uint64_t draw = uint64_t(step_context_.number) << 40 ^ uint64_t(micro_.sequences[size_t(b)]);
    for (int64_t s = 0; s < S; ++s)
      for (int64_t h = 0; h < H; ++h) {
        const int64_t head = H == 1 && weigh_context_.head ? weigh_context_.head - 1 : h;
        *out++ = unit_float(philox(key, draw, uint64_t(s * run_context_.heads + head))[0]);
      }
  }
  return numbers.to(weigh_context_.valid.device());
}

Tensor& MicroBatchContext::state(const std::string& name, const Tensor& first) const {
  Tensor& kept = run_context_.pipeline_state.try_emplace(name, first.detach().clone()).first->second;
  if (kept.device() != first.device()) kept = kept.to(first.device());  // it was loaded from a checkpoint
  return kept;
}

void MicroBatchContext::enter(WeighContext weigh_context) {
  weigh_context_ = std::move(weigh_context);
  given_.clear();
  given_.add("valid()", weigh_context_.valid);
  for (const Signal signal : {Signal::policy_loss, Signal::policy_entropy, Signal::policy_rank, Signal::policy_margin,
                              Signal::policy_top_mass})
    given_.add(to_text(signal), policy_signal(signal));
  if (weigh_context_.when == When::token) return;  // a TokenStep has copies of the rest
  const Batch& batch = micro_.batch;
  given_.add("batch().tokens", batch.tokens);
  given_.add("batch().kind", batch.kind);
  given_.add("batch().sequence", batch.sequence);
  given_.add("batch().correct", batch.correct);
  given_.add("batch().partner", batch.partner);
  for (const auto& [name, tensor] : known_)
    if (name != "reference.hidden") given_.add(name, tensor);  // which no step offers
  for (const auto& [name, tensor] : leaves_) given_.add("value head " + name, tensor);
}

void MicroBatchContext::leave() const {
  if (const std::string changed = given_.changed(); !changed.empty())
    throw Error(ExitStatus::plugin,
                "it wrote into " + changed + ", which the host goes on using; change a clone() of it");
  for (const auto& [name, kept] : run_context_.pipeline_state) check_holds_values(kept, "state " + printable(name));
}

void MicroBatchContext::check_holds_values(const Tensor& tensor, const std::string& what) const {
  const auto refuse = [&](const std::string& found) {
    throw Error(ExitStatus::plugin, what + " is " + found + "; wanted a dense tensor on the CPU or on " +
                                        micro_.batch.tokens.device().str() + ", the batch's device");
  };
  if (!tensor.defined()) refuse("undefined");
  if (!tensor.is_cpu() && tensor.device() != micro_.batch.tokens.device()) refuse("on " + tensor.device().str());
  if (tensor.layout() != at::kStrided) refuse("sparse");
}

void MicroBatchContext::metric(const std::string& name, const Tensor& sum, const Tensor& count) const {
  if (!is_metric_name(name))  // not an Error: the boundary adds the plugin's name
    throw std::invalid_argument("a metric cannot be named " + printable(name) +
                                "; a name is up to 120 letters, digits, '_', '-', '.' and '/', as rho1/excess_mean");
  check_holds_values(sum, "the sum of metric " + name);
  check_holds_values(count, "the count of metric " + name);
  // Only TokenSteps see a part of the positions: all others are the same on every rank of a sequence group.
  if (weigh_context_.when == When::token)
    step_context_.totals.add_plugin_metric(name, sum, count);
  else
    step_context_.totals.add_plugin_metric_once(name, sum, count);
}

}  // namespace wmtp
