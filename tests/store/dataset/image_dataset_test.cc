#include <doctest/doctest.h>

#include "store/dataset/image_dataset.h"
#include "tests/store/dataset/idx_files.h"

using namespace es;
using namespace es::store;
using namespace es::test;

TEST_SUITE("store/dataset/image_dataset") {
  TEST_CASE("a job spec opens the dataset that it names") {
    DataSpec synthetic;
    synthetic.samples = 12;
    synthetic.eval_samples = 5;
    const Result<ImageDataset> images = open_dataset(synthetic, 4);
    REQUIRE(images.ok());
    CHECK(images->train.count() == 12);
    CHECK(images->classes == 4);

    TempDirectory directory;
    write_idx_set(directory.path(), small_idx_set());
    DataSpec idx;
    idx.kind = "idx";
    idx.path = directory.path().string();
    CHECK(open_dataset(idx, 3)->train.count() == 6);
  }

  TEST_CASE("an unknown kind is refused with the kinds that are allowed") {
    DataSpec spec;
    spec.kind = "tape";
    const Result<ImageDataset> dataset = open_dataset(spec, 10);
    REQUIRE_FALSE(dataset.ok());
    CHECK(dataset.error().message == "data.kind = \"tape\": allowed is idx, synthetic");
  }
}
