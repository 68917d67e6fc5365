// graphpipe data NAME --from FILE -o FOLDER: raw files to data sets. tools/fetch_data.sh
// calls it.

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "data/digits.h"
#include "data/movielens.h"

namespace graphpipe {

void add_data_command(CLI::App& app, CommandLine&) {
  CLI::App* command = app.add_subcommand("data", "convert raw files to a data set folder");
  struct Flags {
    std::string name;
    std::string from;
    std::string output;
  };
  auto flags = std::make_shared<Flags>();
  command->add_option("NAME", flags->name, "movielens or digits")->required();
  command->add_option("--from", flags->from, "the raw file (TSV or CSV)")->required();
  command->add_option("-o,--output", flags->output, "the folder to write")->required();
  command->callback([flags] {
    if (flags->name == "movielens") {
      convert_movielens(flags->from, flags->output);
    } else if (flags->name == "digits") {
      convert_digits(flags->from, flags->output);
    } else {
      throw InputError("NAME", fmt::format("'{}' is neither movielens nor digits", flags->name));
    }
  });
}

}  // namespace graphpipe
