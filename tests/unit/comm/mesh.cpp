#include "src/comm/mesh.h"

#include <gtest/gtest.h>
#include <vector>

namespace ogrom {
namespace {

// The numbering written out as the nested loops it means, tp fastest.
TEST(MeshShape, ranks_run_through_the_axes_with_tp_fastest) {
    const MeshShape shape{2, 3, 1, 2, 4};
    int rank = 0;
    for (int pp = 0; pp < shape.pp; ++pp) {
        for (int dp = 0; dp < shape.dp; ++dp) {
            for (int cp = 0; cp < shape.cp; ++cp) {
                for (int ep = 0; ep < shape.ep; ++ep) {
                    for (int tp = 0; tp < shape.tp; ++tp, ++rank) {
                        const MeshPlace place = place_of(rank, shape);
                        EXPECT_EQ((std::vector<int>{place.pp, place.dp, place.cp, place.ep, place.tp}),
                                  (std::vector<int>{pp, dp, cp, ep, tp}))
                            << "rank " << rank;
                        EXPECT_EQ(rank_of({pp, dp, cp, ep, tp}, shape), rank);
                    }
                }
            }
        }
    }
    EXPECT_EQ(rank, shape.size());
}

TEST(MeshShape, one_rank) {
    EXPECT_EQ(MeshShape{}.size(), 1);
    EXPECT_EQ(rank_of(place_of(0, {}), {}), 0);
}

}  // namespace
}  // namespace ogrom
