#include "cli/eval_text.hpp"

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/log.hpp"
#include "core/job/engine_process.hpp"
#include "core/job/find_model.hpp"
#include "core/report/table.hpp"
#include "core/runlog/evaluations.hpp"

namespace wmtp {
namespace {

/// Null where no token stands for text.
nlohmann::json bits_per_byte(const HeadLoss& head) {
  if (head.bytes == 0) return nullptr;
  return head.loss * double(head.tokens) / (std::numbers::ln2 * double(head.bytes));
}

}  // namespace

int evaluate_text(const std::string& run, const std::vector<std::string>& texts, int64_t stride, bool json,
                  const std::filesystem::path& database) {
  const FoundModel model = find_model(run, database);
  PerplexityRequest request;
  request.model = model.folder;
  request.texts.assign(texts.begin(), texts.end());
  request.stride = stride;
  LoggedTextLosses logged{.run_id = model.run_id, .texts = request.texts, .stride = stride};
  Table table{{"head", "tokens", "loss", "perplexity", "bytes", "bits_per_byte"}, {}, false};
  for (const HeadLoss& head : perplexity_with_engine(request)) {
    logged.heads.push_back({head.tokens, head.loss, head.bytes});
    table.rows.push_back(
        {int64_t(logged.heads.size()), head.tokens, head.loss, std::exp(head.loss), head.bytes, bits_per_byte(head)});
  }
  if (model.run_id > 0)
    log_info("text evaluation " + std::to_string(log_text_losses(database, logged)) + " of run " +
             std::to_string(model.run_id) + " is in the log; `wmtp-host sql \"SELECT * FROM v_text_losses\"` shows it");
  print_table(std::cout, table, json ? TableFormat::json : TableFormat::text);
  return 0;
}

}  // namespace wmtp
