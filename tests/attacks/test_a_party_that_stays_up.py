"""Whoever writes into the folder of a party that stays up may mean harm.

Nobody looks on there. So nothing is joined but what a person has agreed to, or what the
party's own rules allow; and no series of files tells how large its numbers are.
"""

import pytest

from parties.test_serving import House, tried_to_join
from parties.test_taking_part import taken_address

pytestmark = pytest.mark.usefixtures("unchecked_shapes", "_quiet")


@pytest.fixture
def house(tmp_path):
    return House(tmp_path)


def test_consent_to_one_file_is_none_to_another_under_its_name(house):
    """A person agreed; then the file is replaced by one that protects less."""
    house.deliver()
    house.agree()
    house.deliver(tolerate=0)
    with taken_address(house.company, "a"):
        assert house.look().state == "pending"
        # The twin: the file that was agreed to.
        house.deliver()
        assert tried_to_join(house.look())


def test_a_status_that_says_running_is_no_consent(house):
    """It was killed before anything was sent; meanwhile the file is another one."""
    house.deliver()
    house.look()
    path = house.home.status(house.run)
    text = path.read_text().replace('"pending"', '"running"')
    path.write_text(text)
    house.deliver(tolerate=0)
    with taken_address(house.company, "a"):
        assert house.look().state == "pending"


def test_a_refusal_of_one_file_bars_no_other_under_its_name(house):
    """Whoever knows the name of a run could keep a party out of it."""
    house.allow()
    house.deliver(tolerate=3)
    with taken_address(house.company, "a"):
        assert house.look().state == "refused"
        house.deliver()
        assert tried_to_join(house.look())


def test_a_series_of_files_within_other_bounds_is_not_joined_alone(house):
    """The organiser asks the same again and again, and watches who comes.

    The twin: the same question within the same bounds is what the rules allow.
    """
    house.allow()
    house.deliver()
    with taken_address(house.company, "a"):
        assert tried_to_join(house.look())
        house.deliver(run="same-" + "1" * 32)
        assert tried_to_join(house.look())
        house.deliver(run="other-" + "2" * 32, deadline=299.0)
        for _ in range(2):
            status = house.look()
            assert status.state == "pending"
            assert "within other bounds" in status.reason
        house.agree()
        assert tried_to_join(house.look())
