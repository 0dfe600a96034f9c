// `__manual FOLDER`, called by the build: writes a manual page (man(7)) for the program and one for each command, from
// the data of --help. wmtp-host-runs-list.1 is `man wmtp-host-runs-list`, and with man-db also `man wmtp-host runs
// list`.
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"

namespace wmtp {
namespace {

/// Text for roff, which prints every character as it is: also in a command that a reader copies.
std::string roff(const std::string& text) {
  static const std::map<char, const char*> escapes{{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"},
                                                   {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
  std::string out;
  for (const char c : text) {
    const auto found = escapes.find(c);
    if (c == '.' && (out.empty() || out.back() == '\n')) out += "\\&";  // would be a request
    if (found == escapes.end())
      out += c;
    else
      out += found->second;
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }

std::string entry(const std::string& name, const std::string& more, const std::string& about) {
  return ".TP\n" + bold(name) + roff(more) + "\n" + roff(about) + "\n";
}

std::string page_of(std::string name) {
  for (char& c : name)
    if (c == ' ') c = '-';
  return name;
}

/// The help text of a command after its first line: paragraphs, blocks indented by two spaces, which are printed line
/// by line, and the examples.
struct HelpText {
  std::string description, examples;

  explicit HelpText(const std::string& help) {
    std::istringstream lines(help.substr(first_line(help).size()));
    std::string* part = &description;
    bool in_block = false, apart = true;
    const auto end_block = [&] {
      if (in_block) *part += ".EE\n";
      in_block = false;
    };
    for (std::string line; std::getline(lines, line);) {
      const bool indented = line.starts_with("  ");
      if (!indented) end_block();
      if (line == "examples:" || line == "example:") {
        part = &examples;
      } else if (line.empty()) {
        apart = true;
        part = &description;
      } else {
        if (apart && !part->empty()) *part += ".PP\n";
        apart = false;
        if (indented && !in_block) *part += ".EX\n";
        in_block = indented;
        *part += roff(indented ? line.substr(2) : line) + "\n";
      }
    }
    end_block();
  }
};

class ManualPage : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return entry(make_option_name(option, is_positional), with_short_range(make_option_opts(option)),
                 make_option_desc(option));
  }
  std::string make_group(std::string group, bool, std::vector<const CLI::Option*> options) const override {
    std::string section = heading(group);
    for (const CLI::Option* option : options) section += make_option(option, option->get_positional());
    return section;
  }

  std::string text(const std::string& name, const CLI::App& command) const {
    const std::string title = page_of(name), help = command.get_description();
    const HelpText parts(help);
    std::string page = ".\\\" Generated from `" + name + " --help`.\n.TH \"" + roff(title) +
                       "\" 1 \"\" \"wmtp\\-host " WMTP_VERSION "\" \"Commands of wmtp\\-host\"\n" + heading("name") +
                       roff(title) + " \\- " + roff(first_line(help)) + "\n" + heading("synopsis") + bold(name) +
                       roff(usage_after_name(command)) + "\n";
    if (!parts.description.empty()) page += heading("description") + parts.description;
    page += make_positionals(&command);
    for (const std::string& group : command.get_groups()) {
      const auto options = command.get_options([&](const CLI::Option* option) {
        return !group.empty() && option->get_group() == group && option->nonpositional();
      });
      if (!options.empty()) page += make_group(group, false, options);
    }
    page += commands_below(name, command);
    if (!parts.examples.empty()) page += heading("examples") + parts.examples;
    return page + see_also(name);
  }

 private:
  static std::string heading(std::string words) {
    for (char& c : words) c = char(std::toupper(uint8_t(c)));
    return ".SH \"" + roff(words) + "\"\n";
  }
  std::string usage_after_name(const CLI::App& command) const {
    std::string usage = make_usage(&command, "");
    usage.erase(0, usage.find(' '));
    return usage.substr(0, usage.find('\n'));
  }
  static std::string commands_below(const std::string& name, const CLI::App& command) {
    std::string section;
    for (const CLI::App* one : command.get_subcommands({}))
      if (!one->get_group().empty())
        section += entry(page_of(name + " " + one->get_name()), "(1)", first_line(one->get_description()));
    return section.empty() ? section : heading("commands") + section;
  }
  static std::string see_also(const std::string& name) {
    const size_t last = name.rfind(' ');
    return last == std::string::npos ? "" : heading("see also") + bold(page_of(name.substr(0, last))) + "(1)\n";
  }
};

int write_manual(const CommandLine& line, const std::filesystem::path& folder) {
  line.each_command([&](const std::string& name, const CLI::App& command) {
    const std::filesystem::path path = folder / (page_of(name) + ".1");
    std::ofstream file(path);
    file << ManualPage().text(name, command);
    file.close();
    if (!file) throw Error(ExitStatus::storage, "cannot write " + path.string() + "; the folder must exist");
  });
  return 0;
}

}  // namespace

void add_manual(CommandLine& line) {
  const auto folder = std::make_shared<std::string>();
  line.add_hidden("__manual", [&line, folder](const GlobalOptions&) { return write_manual(line, *folder); })
      .add_option("FOLDER", *folder)
      ->required();
}

}  // namespace wmtp
