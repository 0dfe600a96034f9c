#include "cli/eval_text.hpp"

#include <cmath>
#include <iostream>

#include "base/log.hpp"
#include "log/evaluations.hpp"
#include "report/table.hpp"
#include "run/generation.hpp"

namespace wmtp {

int evaluate_text(const std::string& run, const std::vector<std::string>& texts, bool json,
                  const std::filesystem::path& database) {
  const FoundModel model = find_model(run, database);
  PerplexityRequest request;
  request.model = model.folder;
  request.texts.assign(texts.begin(), texts.end());
  LoggedTextLosses logged{.run_id = model.run_id, .texts = request.texts};
  Table table{{"head", "tokens", "loss", "perplexity"}, {}, false};
  for (const HeadLoss& head : perplexity_with_engine(request)) {
    logged.heads.push_back({head.tokens, head.loss});
    table.rows.push_back({int64_t(logged.heads.size()), head.tokens, head.loss, std::exp(head.loss)});
  }
  if (model.run_id > 0)
    log_info("text evaluation " + std::to_string(log_text_losses(database, logged)) + " of run " +
             std::to_string(model.run_id) + " is in the log; `wmtp-host sql \"SELECT * FROM v_text_losses\"` shows it");
  print_table(std::cout, table, json ? TableFormat::json : TableFormat::text);
  return 0;
}

}  // namespace wmtp
