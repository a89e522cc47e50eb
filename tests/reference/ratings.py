"""Published data of raters, with the figures published for them, for the tests of evaluation/stats.

Every table names its source; each is small enough to be typed in.
"""

import numpy as np

NAN = float("nan")

JI_RATINGS = np.array(
    [  # worker wf507b8c9 of free_run1: six conversations × seven sliders 0 … 100
        [20, 50, 48, 46, 41, 37, 67],
        [19, 43, 37, 38, 37, 14, 31],
        [31, 50, 50, 45, 42, 50, 38],
        [36, 50, 50, 39, 42, 27, 41],
        [21, 41, 33, 35, 32, 50, 31],
        [27, 50, 38, 38, 40, 32, 36],
    ],
    dtype=float,
)
JI_Z_SCORES = np.array(
    [
        [-1.8133, 1.1047, 0.9101, 0.7156, 0.2293, -0.1598, 2.7582],
        [-1.9106, 0.4238, -0.1598, -0.0625, -0.1598, -2.3969, -0.7434],
        [-0.7434, 1.1047, 1.1047, 0.6183, 0.3265, 1.1047, -0.0625],
        [-0.2571, 1.1047, 1.1047, 0.0347, 0.3265, -1.1325, 0.2293],
        [-1.7161, 0.2293, -0.5489, -0.3543, -0.6461, 1.1047, -0.7434],
        [-1.1325, 1.1047, -0.0625, -0.0625, 0.132, -0.6461, -0.2571],
    ]
)
"""Ji et al. (2022), Achieving Reliable Human Assessment of Open-Domain Dialogue Systems, released data (MIT)."""

KRIPPENDORFF = np.array(
    [  # 12 units × 4 observers A … D, section D of the paper; unit 12 has one value
        [1, 1, NAN, 1],
        [2, 2, 3, 2],
        [3, 3, 3, 3],
        [3, 3, 3, 3],
        [2, 2, 2, 2],
        [1, 2, 3, 4],
        [4, 4, 4, 4],
        [1, 1, 2, 1],
        [2, 2, 2, 2],
        [NAN, 5, 5, 5],
        [NAN, NAN, 1, 1],
        [NAN, 3, NAN, NAN],
    ]
)
KRIPPENDORFF_ALPHA = {"nominal": 0.743, "ordinal": 0.815, "interval": 0.849}
"""Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, University of Pennsylvania."""

KRIPPENDORFF_NOMINAL = np.array(
    [list("aabbdcccedda"), list("babbbccceddd")]  # section B: 2 observers × 12 units
).T
KRIPPENDORFF_NOMINAL_ALPHA = 0.692

KRIPPENDORFF_BINARY = np.array(
    [[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]]  # section A
).T.astype(float)
KRIPPENDORFF_BINARY_ALPHA = 0.095

SHROUT_FLEISS = np.array(
    [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]], dtype=float
)
"""Shrout and Fleiss (1979), Psychological Bulletin 86, table 2: 6 targets × 4 judges."""
SHROUT_FLEISS_ICC = {  # table 4; intervals of 95 % as printed by R's psych::ICC for this data
    "icc1_1": (0.17, -0.133, 0.72),
    "icc2_1": (0.29, 0.019, 0.76),
    "icc3_1": (0.71, 0.342, 0.95),
    "icc1_k": (0.44, -0.884, 0.91),
    "icc2_k": (0.62, 0.071, 0.93),
    "icc3_k": (0.91, 0.676, 0.99),
}

FLEISS_COUNTS = np.array(
    [  # 10 subjects × 5 categories, 14 raters each
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
)
FLEISS_KAPPA = 0.210
"""The worked example of the encyclopaedia article "Fleiss' kappa" (Wikipedia), P̄ = .378, P̄_e = .213."""

COHEN_TABLE = np.array([[106, 10, 4], [22, 28, 10], [2, 12, 6]])
COHEN_KAPPA, COHEN_VARIANCE = 0.429, 0.002885
"""Fleiss, Cohen and Everitt (1969), Psychological Bulletin 72: proportions × 200, kappa and its variance."""

ERGO_STOOL = {
    "T1": [12, 10, 7, 7, 8, 9, 8, 7, 9],
    "T2": [15, 14, 14, 11, 11, 11, 12, 11, 13],
    "T3": [12, 13, 13, 10, 8, 11, 12, 8, 10],
    "T4": [10, 12, 9, 9, 7, 10, 11, 7, 8],
}
"""Effort of nine subjects to rise from four stools; Pinheiro and Bates (2000), section 1.2: REML gives
sd of subjects 1.332465, residual sd 1.100295, T2 − T1 = 3.888889 (error .5186838, 24 df), F(3, 24) = 22.356."""

CHEESE = {
    "A": [0, 0, 1, 7, 8, 8, 19, 8, 1],
    "B": [6, 9, 12, 11, 7, 6, 1, 0, 0],
    "C": [1, 1, 6, 8, 23, 7, 5, 1, 0],
    "D": [0, 0, 0, 1, 3, 7, 14, 16, 11],
}
"""Four additives, nine points from strong dislike to excellent taste, 52 people each; McCullagh and Nelder
(1989), Generalized Linear Models, section 5.6: proportional odds, deviance 20.31 on 21 df, and the SAS
manual (LOGISTIC, "Ordinal Logistic Regression") for the log odds against D, printed with the sign that
raises the chance of a low score: 1.6128 (.3778), 4.9645 (.4741), 3.3227 (.4251)."""

PUDDINGS = [  # i, j, i preferred, j preferred, no preference
    (1, 2, 19, 22, 16),
    (1, 3, 16, 19, 12),
    (2, 3, 19, 19, 10),
    (1, 4, 18, 23, 13),
    (2, 4, 23, 19, 9),
    (3, 4, 19, 20, 15),
    (1, 5, 13, 19, 18),
    (2, 5, 16, 20, 12),
    (3, 5, 16, 15, 17),
    (4, 5, 17, 14, 16),
    (1, 6, 18, 21, 12),
    (2, 6, 22, 20, 12),
    (3, 6, 13, 18, 10),
    (4, 6, 14, 19, 18),
    (5, 6, 11, 21, 12),
]
PUDDING_WORTH = [0.1388005, 0.1729985, 0.1617420, 0.1653930, 0.1586805, 0.2023855]
PUDDING_TIE = 0.7468147
"""Davidson (1970), Journal of the American Statistical Association 65: chocolate puddings; estimates as in
the vignette of R's PlackettLuce, which stops after seven steps as the paper did."""

BASEBALL_TEAMS = ["Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore"]
BASEBALL_WINS = np.array(
    [
        [0, 7, 9, 7, 7, 9, 11],
        [6, 0, 7, 5, 11, 9, 9],
        [4, 6, 0, 7, 7, 8, 12],
        [6, 8, 6, 0, 6, 7, 10],
        [6, 2, 6, 7, 0, 7, 12],
        [4, 4, 5, 6, 6, 0, 6],
        [2, 4, 1, 3, 1, 7, 0],
    ]
)
BASEBALL_LOG_WORTH = {  # against Baltimore, with errors
    "Boston": (1.1077, 0.3339),
    "Cleveland": (0.6839, 0.3319),
    "Detroit": (1.4364, 0.3396),
    "Milwaukee": (1.5814, 0.3433),
    "New York": (1.2476, 0.3359),
    "Toronto": (1.2945, 0.3367),
}
"""American League, 1987; Agresti (2002), Categorical Data Analysis, table 10.10; fit as in the vignette of
R's BradleyTerry2."""
