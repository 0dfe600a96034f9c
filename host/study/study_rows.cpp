#include "study/study_rows.hpp"

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "log/log_reader.hpp"
#include "log/open_log.hpp"
#include "study/members.hpp"

namespace wmtp {
namespace {

void insert(Database& log, const std::string& study, const Json& definition, const Json& estimate) {
  Statement(log, "INSERT INTO study_plans (study, hash, planned_at, definition, estimate) VALUES (?1, ?2, ?3, ?4, ?5)")
      .run(study, study_hash(definition), utc_now(), dumped(definition), dumped(estimate));
}

}  // namespace

void store_plan(const std::filesystem::path& database, const std::string& study, const Json& definition,
                const Json& estimate) {
  Database log = open_log_for_writing(database);
  insert(log, study, definition, estimate);
}

std::string begun_at(const std::filesystem::path& database, const std::string& study) {
  const Table found = LogReader(database).query(
      "SELECT coalesce(strftime('%Y-%m-%dT%H:%M:%SZ', min(begun_ns) / 1e9, 'unixepoch'), '') FROM study_plans WHERE "
      "study = ?1",
      {study});
  return found.rows.empty() ? "" : found.rows[0][0].get<std::string>();
}

Json begin_study(const std::filesystem::path& database, const std::string& study, const Json& definition) {
  Database log = open_log_for_writing(database);
  const std::string hash = study_hash(definition);
  Transaction transaction(log);
  const auto newest = [&] {
    Statement find(log, "SELECT coalesce(max(id), 0) FROM study_plans WHERE study = ?1 AND hash = ?2");
    find.bind_all({study, hash});
    find.step();
    return find.integer(0);
  };
  if (newest() == 0) insert(log, study, definition, Json::object());
  Statement(log, "UPDATE study_plans SET begun_ns = coalesce(begun_ns, ?1) WHERE id = ?2").run(now_ns(), newest());
  Json plan;
  {
    Statement first(
        log,
        "SELECT planned_at, strftime('%Y-%m-%dT%H:%M:%SZ', begun_ns / 1e9, 'unixepoch'), definition, estimate "
        "FROM study_plans WHERE study = ?1 AND begun_ns IS NOT NULL ORDER BY begun_ns LIMIT 1");
    first.bind_all({study});
    first.step();
    plan = {{"planned_at", first.text(0)},
            {"begun_at", first.text(1)},
            {"estimate", parse_strict_json(first.text(3), "study_plans")},
            {"changes", definition_changes(parse_strict_json(first.text(2), "study_plans"), definition)}};
  }
  transaction.commit();
  return plan;
}

void store_report(const std::filesystem::path& database, OrderedJson report, const std::string& curves_svg,
                  const std::string& differences_svg) {
  report.erase("results");
  Database log = open_log_for_writing(database);
  Statement(log,
            "INSERT OR REPLACE INTO study_reports (study, hash, made_ns, report, curves, differences) "
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
      .run(report.at("study").get<std::string>(), report.at("hash").get<std::string>(), now_ns(), dumped(report),
           curves_svg, differences_svg);
}

}  // namespace wmtp
