// The key functions of the sdk's classes: this library alone contains each type's vtable and type information, so the
// host and every plugin share one type (dynamic_cast and catch work across libraries).
#include <stdexcept>

#include <wmtp/plugin.hpp>

namespace wmtp {

Options::~Options() = default;
Collectives::~Collectives() = default;
Step::~Step() = default;
WholeBatch::~WholeBatch() = default;
TokenStep::~TokenStep() = default;
HeadStep::~HeadStep() = default;
BatchStep::~BatchStep() = default;
ValueStep::~ValueStep() = default;
LogitsStep::~LogitsStep() = default;
Weighting::~Weighting() = default;
Wrapper::~Wrapper() = default;
Objective::~Objective() = default;
LinearCall::~LinearCall() = default;
Adapter::~Adapter() = default;
LinearAdapter::~LinearAdapter() = default;
AuxiliaryLoss::~AuxiliaryLoss() = default;

Weights Weighting::weigh(TokenStep&) {
  throw std::logic_error("it does not override weigh() for the moment returned by needs()");
}

BadOption::BadOption(std::string option, std::string message, int64_t at)
    : option_(std::move(option)), message_(std::move(message)), at_(at) {}
BadOption::~BadOption() = default;

namespace detail {
namespace {
std::vector<const PluginEntry*>& built_in_entries() {
  static std::vector<const PluginEntry*> entries;
  return entries;
}
}  // namespace

BuiltIn::BuiltIn(const PluginEntry& entry) { built_in_entries().push_back(&entry); }
const std::vector<const PluginEntry*>& BuiltIn::all() { return built_in_entries(); }
}  // namespace detail

}  // namespace wmtp
