// Film ratings from four kinds of input: who rates (ids), which film (ids), its title
// (characters, through a small Transformer), and its genres, year and the rating's time.
//
//   user ── table ── fc ──────────┐ 3 W
//   film ── table ── fc ──────────┤ W          ┌── product ──┐
//   title ─ table ─ encoder ─ fc ─┼── concat ──┤             ├── concat ── fc ── rating
//   genres, year, time ── fc, fc ─┘ W          └─────────────┘
//
// The user tower gives W numbers for each other tower, and the product multiplies them
// element by element: the dot products of matrix factorisation (Koren, Bell and Volinsky,
// IEEE Computer 2009), against the film, its title and its circumstances alike, whose
// weights the top layers learn.

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

// Characters that make one position of the title's Transformer.
constexpr std::int64_t kPatch = 4;
constexpr std::int64_t kTitleHeads = 2;
// Small, so that a user or film seen once starts near the average.
constexpr double kTableScale = 0.05;
// Ratings go from 0.5 to 5; the model learns how they differ from about their mean.
constexpr double kUsualRating = 3.5;

struct TowerSizes {
  std::int64_t dim;
  std::int64_t hidden;
  std::int64_t width;
  double table_dropout;
  double dropout;
};

TensorId with_dropout(GraphBuilder& g, const std::string& name, TensorId x, double dropout) {
  return dropout > 0 ? g.dropout(name, x, dropout) : x;
}

TensorId id_tower(GraphBuilder& g, const std::string& name, std::int64_t entries,
                  const TowerSizes& sizes, std::int64_t out) {
  const TensorId id = g.input(name, DType::kInt64, {});
  const TensorId row = g.embedding(name + ".table", id, entries, sizes.dim, kTableScale);
  return g.linear(name + ".fc", with_dropout(g, name + ".dropout", row, sizes.table_dropout), out);
}

TensorId title_tower(GraphBuilder& g, const ZooArguments& arguments, const TowerSizes& sizes) {
  const std::int64_t dim = arguments["title_dim"];
  const TensorId title = g.input("title", DType::kInt64, {kTitleLength});
  TensorId x = g.embedding("title.table", title, kCharacters, dim / kPatch, kTableScale);
  x = g.reshape("title.patches", x, {kTitleLength / kPatch, dim});
  x = g.add_parameter("title.positions", x, {InitKind::kNormal, kTableScale});
  for (std::int64_t l = 0; l < arguments["title_layers"]; ++l) {
    x = encoder_layer(g, fmt::format("title.layer{}", l), x, {kTitleHeads, 2 * dim, 0});
  }
  x = with_dropout(g, "title.dropout", g.mean("title.mean", x, 0), sizes.table_dropout);
  return g.linear("title.fc", x, sizes.width);
}

TensorId context_tower(GraphBuilder& g, const TowerSizes& sizes) {
  const TensorId genres = g.input("genres", DType::kInt64, {kGenresOfAFilm});
  const TensorId year = g.input("year", {1});
  const TensorId time = g.input("time", {kTimeFeatures});
  const TensorId bag =
      g.embedding_bag("genres.table", genres, kGenres, sizes.dim, "sum", kTableScale);
  TensorId x = g.concat("genres.concat", {bag, year, time}, -1);
  x = g.relu("genres.relu", g.linear("genres.fc1", x, sizes.hidden));
  return g.linear("genres.fc2", x, sizes.width);
}

// Beside the towers' numbers (n), the first half of them, which is the user's, times the
// second. By way of a pair of rows, so that no tensor has more than two consumers: a sum
// of two gradients does not depend on their order, wherever the stages are cut.
TensorId with_products(GraphBuilder& g, TensorId towers) {
  const std::int64_t half = g.graph().tensor(towers).shape[0] / 2;
  const TensorId pair = g.reshape("product.pair", towers, {2, half});
  const TensorId user = g.slice("product.user", pair, 0, 0, 1);
  const TensorId others = g.slice("product.others", pair, 0, 1, 1);
  const TensorId product = g.reshape("product.flat", g.mul("product", user, others), {half});
  return g.concat("head.concat", {towers, product}, -1);
}

// x (n) -> (): the rating, from a wide and a deep path.
TensorId rating_of(GraphBuilder& g, TensorId x, const TowerSizes& sizes) {
  x = with_dropout(g, "head.dropout1", x, sizes.dropout);
  TensorId deep = g.relu("head.relu", g.linear("head.fc1", x, sizes.width));
  deep = g.linear("head.fc2", with_dropout(g, "head.dropout2", deep, sizes.dropout), 1);
  const TensorId wide = g.linear("head.wide", x, 1, false);
  const TensorId y = g.add_parameter("head.usual", g.add("head.add", {deep, wide}),
                                     {InitKind::kConstant, kUsualRating});
  return g.reshape("head.reshape", y, {});
}

void check(const ZooArguments& arguments) {
  const std::int64_t unit = kPatch * kTitleHeads;
  if (arguments["title_dim"] % unit != 0) {
    throw InputError("MODEL", fmt::format("title_dim is {}, expected a multiple of {}",
                                          arguments["title_dim"], unit));
  }
  for (const char* tower : {"use_user", "use_film", "use_title", "use_genre"}) {
    if (arguments[tower] != 0) return;
  }
  throw InputError("MODEL",
                   "expected at least one of use_user, use_film, use_title and use_genre to be 1");
}

Graph build_movielens(const ZooArguments& arguments, DType floating) {
  check(arguments);
  GraphBuilder g("movielens", floating);
  const TowerSizes sizes{arguments["dim"], arguments["hidden"], arguments["width"],
                         rate(arguments, "table_dropout"), rate(arguments, "dropout")};
  const std::int64_t others =
      arguments["use_film"] + arguments["use_title"] + arguments["use_genre"];
  const bool product = arguments["use_user"] != 0 && others > 0;
  const std::int64_t user_width = product ? others * sizes.width : sizes.width;
  std::vector<TensorId> towers;
  if (arguments["use_user"] != 0) {
    towers.push_back(id_tower(g, "user", arguments["users"], sizes, user_width));
  }
  if (arguments["use_film"] != 0) {
    towers.push_back(id_tower(g, "film", arguments["films"], sizes, sizes.width));
  }
  if (arguments["use_title"] != 0) towers.push_back(title_tower(g, arguments, sizes));
  if (arguments["use_genre"] != 0) towers.push_back(context_tower(g, sizes));
  const TensorId rating = g.input("rating", {});
  TensorId x = concat_last(g, "concat", towers);
  if (product) x = with_products(g, x);
  const TensorId loss = g.mse_loss("loss", rating_of(g, x, sizes), rating);
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
           {"hidden", 256, 1, 65536, "width of the genre and time tower's hidden layer"},
           {"width", 64, 1, 65536, "width of what a tower gives, and of the top layer"},
           {"title_dim", 32, 8, 65536, "width of the title's Transformer"},
           {"title_layers", 1, 0, 1024, "Transformer layers over the title"},
           {"table_dropout", 300, 0, 900, "dropout rate behind the embeddings, per mille"},
           {"dropout", 200, 0, 900, "dropout rate in the top layers, per mille"},
           {"use_user", 1, 0, 1, "whether the user tower is there"},
           {"use_film", 1, 0, 1, "whether the film tower is there"},
           {"use_title", 1, 0, 1, "whether the title tower is there"},
           {"use_genre", 1, 0, 1, "whether the genre and time tower is there"}},
          build_movielens};
}

}  // namespace graphpipe
