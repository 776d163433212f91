"""Aggregates and their intervals: by hand, and against rliable, whose definitions these are."""

from __future__ import annotations

import numpy as np
import pytest

from virel_tf.reports import aggregates as st

SCORES = np.array([[0.1, 0.9], [0.3, 0.5], [0.2, 1.3]])  # three runs of two tasks
OTHERS = np.array([[0.2, 0.4], [0.0, 1.3]])


def random_scores(seed: int, runs: int = 7, tasks: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).normal(seed / 10, 1, [runs, tasks])


def test_final_score_is_the_mean_of_the_last_ten_evaluations():
    assert st.final_score(np.arange(1.0, 21.0)) == 15.5  # 11 to 20
    assert st.final_score(np.array([1.0, 2.0])) == 1.5


def test_area_under_the_curve_by_hand():
    # Between 0 and 10: mean 1; between 10 and 40: mean 3; (10 * 1 + 30 * 3) / 40.
    assert st.area_under_curve(np.array([0.0, 10.0, 40.0]), np.array([0.0, 2.0, 4.0])) == 2.5
    assert st.area_under_curve(np.array([1000.0]), np.array([7.0])) == 7.0


def test_steps_to_a_threshold_or_never():
    steps, returns = np.array([1000.0, 2000.0, 3000.0]), np.array([1.0, 5.0, 3.0])
    assert st.steps_to_threshold(steps, returns, 3.0) == 2000.0
    assert st.steps_to_threshold(steps, returns, 5.5) == np.inf


def test_the_interval_of_a_mean_by_hand():
    """1, 2, 3: mean 2, deviation 1; the interval reaches 4.302653 / sqrt(3) to each side."""
    estimate = st.mean_interval(np.array([1.0, 2.0, 3.0]))
    assert estimate == pytest.approx((2.0, 2.0 - 2.484138, 2.0 + 2.484138), abs=1e-6)
    single = st.mean_interval(np.array([4.0]))
    assert single.value == 4.0 and np.isnan(single.low) and np.isnan(single.high)


def test_means_of_curves_are_taken_step_by_step():
    estimate = st.mean_interval(np.array([[1.0, 5.0], [3.0, 5.0]]))
    np.testing.assert_array_equal(estimate.value, [2.0, 5.0])
    # deviation sqrt(2) over sqrt(2)
    np.testing.assert_allclose(estimate.high, [2.0 + 12.706205, 5.0])


@pytest.mark.parametrize("freedom", [1, 2, 7, 30, 31, 60, 1000])
def test_quantiles_of_student_s_t(freedom):
    scipy_stats = pytest.importorskip("scipy.stats")
    assert st.t_quantile(freedom) == pytest.approx(scipy_stats.t.ppf(0.975, freedom), abs=5e-6)


def test_normalised_scores_by_hand():
    np.testing.assert_array_equal(
        st.normalise(np.array([-100.0, 400.0, 900.0]), -100.0, 900.0), [0.0, 0.5, 1.0]
    )


def test_interquartile_mean_by_hand():
    """Six scores: one is cut off each end, leaving 0.2, 0.3, 0.5, 0.9."""
    assert st.interquartile_mean(SCORES) == pytest.approx(0.475, abs=1e-15)
    np.testing.assert_allclose(
        st.interquartile_mean(np.stack([SCORES, SCORES + 1])), [0.475, 1.475]
    )


def test_performance_profile_by_hand():
    np.testing.assert_allclose(
        st.performance_profile(SCORES, np.array([0.0, 0.3, 0.9, 2.0])), [1, 3 / 6, 1 / 6, 0]
    )


def test_probability_of_improvement_by_hand():
    """By hand the probabilities are 4.5 / 6 and 3.5 / 6.

    First task: 0.1, 0.3, 0.2 against 0.2, 0.0 win 1, 2, 1.5 of 2. Second: 0.9, 0.5, 1.3 against
    0.4, 1.3 win 1, 1, 1.5 of 2.
    """
    assert st.probability_of_improvement(SCORES, OTHERS) == pytest.approx(8 / 12, abs=1e-15)
    assert st.probability_of_improvement(OTHERS, SCORES) == pytest.approx(4 / 12, abs=1e-15)


def test_resampling_stays_within_a_task():
    indices = st.bootstrap_indices(np.random.default_rng(0), 200, SCORES)
    resampled = st.resample(SCORES, indices)
    assert resampled.shape == (200, 3, 2)
    assert set(np.unique(resampled[..., 0])) == {0.1, 0.2, 0.3} and set(
        np.unique(resampled[..., 1])
    ) == {0.5, 0.9, 1.3}
    assert not np.array_equal(indices[..., 0], indices[..., 1])  # tasks are drawn on their own


def test_a_band_of_three_curves_is_their_range():
    """All three draws fall on the lowest run in 1 of 27 resamples, more often than 2.5 of 100."""
    estimate = st.bootstrap_mean(np.array([[1.0, 7.0], [2.0, 7.0], [6.0, 7.0]]), samples=2000)
    np.testing.assert_allclose(estimate, [[3.0, 7.0], [1.0, 7.0], [6.0, 7.0]])
    assert np.isnan(st.bootstrap_mean(np.ones([1, 4]), samples=10).low).all()


def test_a_bootstrap_of_scores_that_agree_has_no_width():
    scores = np.full([3, 2], 0.7)
    estimate = st.bootstrap(
        st.interquartile_mean,
        scores,
        indices=[st.bootstrap_indices(np.random.default_rng(0), 50, scores)],
    )
    assert estimate == pytest.approx((0.7, 0.7, 0.7))


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    """400 experiments of 20 runs from a normal.

    The mean's percentile interval holds 0 in about 93 of 100.
    """
    generator = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        scores = generator.normal(size=[20, 1])
        estimate = st.bootstrap(
            lambda x: x.mean(axis=(-2, -1)),
            scores,
            indices=[st.bootstrap_indices(generator, 400, scores)],
        )
        held += estimate.low <= 0 <= estimate.high
    assert 0.89 <= held / 400 <= 0.97


def test_wrong_shapes_are_refused():
    with pytest.raises(AssertionError):
        st.interquartile_mean(np.zeros(3))
    with pytest.raises(AssertionError):
        st.probability_of_improvement(np.zeros([3, 2]), np.zeros([3, 1]))
    with pytest.raises(AssertionError):
        st.resample(SCORES, np.zeros([5, 2, 2], int))


class TestAgainstRliable:
    """Point estimates to 1e-12; intervals the same when the runs drawn are the same."""

    def test_point_estimates(self):
        metrics = pytest.importorskip("rliable.metrics")
        library = pytest.importorskip("rliable.library")
        thresholds = np.linspace(-2, 3, 21)
        for seed in range(5):
            x, y = random_scores(seed), random_scores(seed + 10, runs=5)
            assert st.interquartile_mean(x) == pytest.approx(metrics.aggregate_iqm(x), abs=1e-12)
            assert st.probability_of_improvement(x, y) == pytest.approx(
                metrics.probability_of_improvement(x, y), abs=1e-12
            )
            np.testing.assert_allclose(
                st.performance_profile(x, thresholds),
                library.score_distributions(x, thresholds),
                atol=1e-12,
            )

    def test_ties(self):
        metrics = pytest.importorskip("rliable.metrics")
        x, y = random_scores(1).round(), random_scores(2, runs=5).round()
        assert st.probability_of_improvement(x, y) == pytest.approx(
            metrics.probability_of_improvement(x, y), abs=1e-12
        )

    def test_intervals_from_the_same_draws(self):
        library, metrics = (
            pytest.importorskip("rliable.library"),
            pytest.importorskip("rliable.metrics"),
        )
        x = random_scores(3)
        np.random.seed(5)  # rliable draws from NumPy's global generator
        _, theirs = library.get_interval_estimates(
            {"x": x}, lambda s: np.array([metrics.aggregate_iqm(s)]), reps=300
        )
        np.random.seed(5)
        indices = np.stack([np.random.choice(len(x), x.shape) for _ in range(300)])
        ours = st.bootstrap(st.interquartile_mean, x, indices=[indices])
        np.testing.assert_allclose([ours.low, ours.high], theirs["x"][:, 0], atol=1e-12)

    def test_intervals_of_two_variants_from_the_same_draws(self):
        library, metrics = (
            pytest.importorskip("rliable.library"),
            pytest.importorskip("rliable.metrics"),
        )
        x, y = random_scores(3, runs=4, tasks=2), random_scores(8, runs=5, tasks=2)
        np.random.seed(6)
        _, theirs = library.get_interval_estimates(
            {"x": [x, y]},
            lambda a, b: np.array([metrics.probability_of_improvement(a, b)]),
            reps=100,
        )
        np.random.seed(6)
        draws = [(np.random.choice(4, x.shape), np.random.choice(5, y.shape)) for _ in range(100)]
        indices = [np.stack(each) for each in zip(*draws, strict=True)]
        ours = st.bootstrap(st.probability_of_improvement, x, y, indices=indices)
        np.testing.assert_allclose([ours.low, ours.high], theirs["x"][:, 0], atol=1e-12)
