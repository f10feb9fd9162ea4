from invariance.core.artefacts import Printed
from invariance.studies.support.printed import everything, printed


def test_numbers_are_looked_up_by_their_place():
    assert printed("table-4", "Colored-MNIST", "large batch", "IRMv1", "gap") == Printed(3.43, 0.14)
    assert printed("table-3", "Colored-MNIST", "large batch", "IRMv1", "average") == Printed(67.13, None)
    assert printed("table-4", "Colored-MNIST", "large batch", "IRMv1", "worst") is None


def test_every_number_is_a_percentage_with_a_small_deviation():
    for number in everything().values():
        assert 0 <= number.mean <= 100
        assert number.std is None or 0 < number.std < 5
