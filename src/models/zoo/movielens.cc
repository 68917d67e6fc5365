// Film ratings from four kinds of input: who rates (ids), which film (ids), its title
// (characters, through a small Transformer), and its genres, year and the rating's time.
// The four towers are concatenated; top layers give the rating.

#include <fmt/format.h>

#include "base/error.h"
#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

// As the data set has them.
constexpr std::int64_t kTitleLength = 32;
constexpr std::int64_t kCharacters = 40;     // 0 is padding
constexpr std::int64_t kGenresOfAFilm = 10;  // -1 is padding
constexpr std::int64_t kGenres = 20;
constexpr std::int64_t kTimeFeatures = 4;

constexpr std::int64_t kTitleHeads = 4;
// Ratings go from 0.5 to 5; the model learns how they differ from about their mean.
constexpr double kStartRating = 3.5;

struct Sizes {
  std::int64_t dim;
  std::int64_t hidden;
  double dropout;
};

TensorId with_dropout(GraphBuilder& g, const std::string& name, TensorId x, double dropout) {
  return dropout > 0 ? g.dropout(name, x, dropout) : x;
}

TensorId id_tower(GraphBuilder& g, const std::string& name, std::int64_t entries,
                  const Sizes& sizes) {
  const TensorId id = g.input(name, DType::kInt64, {});
  const TensorId row = g.embedding(name + ".table", id, entries, sizes.dim);
  const TensorId h = g.relu(name + ".relu", g.linear(name + ".fc", row, sizes.hidden));
  return with_dropout(g, name + ".dropout", h, sizes.dropout);
}

TensorId title_tower(GraphBuilder& g, const ZooArguments& arguments) {
  const std::int64_t dim = arguments["title_dim"];
  const TensorId title = g.input("title", DType::kInt64, {kTitleLength});
  TensorId x = g.embedding("title.table", title, kCharacters, dim);
  x = g.add_parameter("title.positions", x, {InitKind::kNormal, 0.1});
  for (std::int64_t l = 0; l < arguments["title_layers"]; ++l) {
    x = encoder_layer(g, fmt::format("title.layer{}", l), x, {kTitleHeads, 2 * dim, 0});
  }
  return g.mean("title.mean", x, 0);
}

TensorId genre_tower(GraphBuilder& g, const Sizes& sizes) {
  const TensorId genres = g.input("genres", DType::kInt64, {kGenresOfAFilm});
  const TensorId year = g.input("year", {1});
  const TensorId time = g.input("time", {kTimeFeatures});
  const TensorId bag = g.embedding_bag("genres.table", genres, kGenres, sizes.dim, "mean");
  const TensorId x = g.concat("genres.concat", {bag, year, time}, -1);
  return g.relu("genres.relu", g.linear("genres.fc", x, sizes.hidden));
}

// x (n) -> (): the rating, from a linear layer whose bias starts at the usual rating.
TensorId rating_of(GraphBuilder& g, TensorId x) {
  const std::int64_t in = g.graph().tensor(x).shape.back();
  const ParamId weight = g.param("head.fc2.weight", {1, in}, {InitKind::kNormal, 0.01});
  const ParamId bias = g.param("head.fc2.bias", {1}, {InitKind::kConstant, kStartRating});
  const TensorId y = g.add_op("head.fc2", OpKind::kLinear, {x}, {weight, bias}, {})[0];
  return g.reshape("head.reshape", y, {});
}

Graph build(const ZooArguments& arguments, DType floating) {
  if (arguments["title_dim"] % kTitleHeads != 0) {
    throw InputError("MODEL", fmt::format("title_dim is {}, expected a multiple of {}",
                                          arguments["title_dim"], kTitleHeads));
  }
  GraphBuilder g("movielens", floating);
  const Sizes sizes{arguments["dim"], arguments["hidden"], rate(arguments, "dropout")};
  std::vector<TensorId> towers;
  if (arguments["use_user"] != 0) towers.push_back(id_tower(g, "user", arguments["users"], sizes));
  if (arguments["use_film"] != 0) towers.push_back(id_tower(g, "film", arguments["films"], sizes));
  if (arguments["use_title"] != 0) towers.push_back(title_tower(g, arguments));
  if (arguments["use_genre"] != 0) towers.push_back(genre_tower(g, sizes));
  if (towers.empty()) {
    throw InputError("MODEL",
                     "expected at least one of use_user, use_film, use_title and "
                     "use_genre to be 1");
  }
  const TensorId rating = g.input("rating", {});
  TensorId x = concat_last(g, "concat", towers);
  x = g.relu("head.relu", g.linear("head.fc1", x, sizes.hidden));
  x = with_dropout(g, "head.dropout", x, sizes.dropout);
  const TensorId loss = g.mse_loss("loss", rating_of(g, x), rating);
  g.loss(loss);
  g.metric("rmse", "root_mean", loss);
  return std::move(g).build();
}

}  // namespace

ZooModel movielens_model() {
  return {"movielens",
          "film ratings from four towers: user, film, title, genres and time (MovieLens)",
          {{"users", 671, 1, 10000000, "users"},
           {"films", 9066, 1, 10000000, "films"},
           {"dim", 32, 1, 65536, "width of the embeddings"},
           {"hidden", 64, 1, 65536, "width of the towers and the top layers"},
           {"title_dim", 32, 4, 65536, "width of a character of the title"},
           {"title_layers", 1, 0, 1024, "Transformer layers over the title"},
           {"dropout", 300, 0, 900, "dropout rate, per mille"},
           {"use_user", 1, 0, 1, "whether the user tower is there"},
           {"use_film", 1, 0, 1, "whether the film tower is there"},
           {"use_title", 1, 0, 1, "whether the title tower is there"},
           {"use_genre", 1, 0, 1, "whether the genre and time tower is there"}},
          build};
}

}  // namespace graphpipe
