#include "train/equal_states.hpp"

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {
constexpr const char* what = "comparing the pipeline's state";

/// "Float [3] 1c291ca3": two states with equal texts are equal.
std::string state_text(const at::Tensor& state) {
  const at::Tensor dense = state.detach().to(at::kCPU).contiguous();
  return std::string(c10::toString(dense.scalar_type())) + " " + shape_text(dense.sizes()) + " " +
         printed("%08x", crc32c(dense.const_data_ptr(), size_t(dense.nbytes())));
}

/// The first state that is not the same on all ranks, and where; "" if there is none.
std::string difference_in(const std::vector<std::string>& reports) {
  const Json first = Json::parse(reports[0]);
  for (size_t rank = 1; rank < reports.size(); ++rank) {
    const Json other = Json::parse(reports[rank]);
    for (const Json& states : {first, other})
      for (const auto& [name, text] : states.items())
        if (first.value(name, "") != other.value(name, ""))
          return "state " + printable(name) + " on rank " + std::to_string(rank) +
                 (!other.contains(name)   ? " does not exist, but does on rank 0"
                  : !first.contains(name) ? " does not exist on rank 0"
                                          : " differs from rank 0's");
  }
  return "";
}

}  // namespace

void check_equal_states(const std::string& pipeline, const std::map<std::string, at::Tensor>& pipeline_state,
                        Channels& channels) {
  if (channels.size() == 1) return;
  Json mine = Json::object();
  for (const auto& [name, state] : pipeline_state) mine[name] = state_text(state);
  const std::string report = dumped(mine);
  const double sum = crc32c(report.data(), report.size());
  const at::Tensor sums = channels.all_gather(at::full({1}, sum, at::kDouble), what);
  if (sums.eq(sums[0]).all().item<bool>()) return;
  const std::vector<std::string> reports = channels.peers().gather(what, report);
  const std::string difference = channels.peers().broadcast(what, reports.empty() ? "" : difference_in(reports));
  throw Error(ExitStatus::plugin, "pipeline '" + pipeline + "': " + difference +
                                      "; compute it from collectives(), so that it is equal on all ranks");
}

}  // namespace wmtp
