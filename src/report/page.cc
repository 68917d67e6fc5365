#include "report/page.h"

#include "base/error.h"
#include "report/page_bundle.h"

namespace graphpipe {

std::string page_missing() {
  return page_template().empty() ? std::string(page_template_missing()) : "";
}

std::string report_page(const std::vector<PagePlan>& plans) {
  constexpr std::string_view kMark = "__GRAPHPIPE_DATA__";
  std::string page(page_template());
  const std::size_t at = page.find(kMark);
  GP_CHECK(at != std::string::npos, "the page has no place for its data");
  std::string data = page_data_json(plans);
  // Nothing in the data may end the element that it stands in.
  for (std::size_t i = data.find("</"); i != std::string::npos; i = data.find("</", i + 3)) {
    data.replace(i, 2, "<\\/");
  }
  return page.replace(at, kMark.size(), data);
}

}  // namespace graphpipe
