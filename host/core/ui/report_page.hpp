// `report`: the page and its data as one file, which opens without a server and asks nobody for anything.
//
// The data are what the live page would ask for, written into the file: curves at up to two points for each of 800
// columns, smoothed over all their points with each of a few factors; samples of at most 40 steps.
#pragma once

#include <string>
#include <vector>

#include "core/ui/page_data.hpp"

namespace wmtp {

/// The whole file. `runs` are in the log.
std::string report_page(PageData& data, const std::vector<int64_t>& runs);

/// JSON that may stand inside a <script>, whatever texts are in it: no '<', '>' or '&', and no line end that JavaScript
/// knows and JSON does not (U+2028, U+2029).
std::string inside_script(const PageJson& value);

/// page.html with what it names put inside: `<link rel="stylesheet" href="F">` and `<script src="F"></script>`.
std::string with_files_inside(const std::string& page);

}  // namespace wmtp
