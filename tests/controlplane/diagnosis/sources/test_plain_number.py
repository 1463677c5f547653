"""Numbers in findings."""

from controlplane.diagnosis.sources.plain_number import plain_number


def test_numbers_are_written_as_people_write_them() -> None:
    told = (371.0, 0.993, 1.35484e6, 12050.123456, 0.41237113402, 1e-5, 1234567.25)
    assert [plain_number(value) for value in told] == [
        "371",
        "0.993",
        "1354840",
        "12050.1",
        "0.412371",
        "0.00001",
        "1234567.2",
    ]
