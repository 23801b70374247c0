import unittest

from basket import basket_total, line_total


class LineTotal(unittest.TestCase):
    def test_few_pay_the_full_price(self):
        self.assertEqual(line_total(250, 9), 2250)

    def test_ten_get_the_discount(self):
        self.assertEqual(line_total(250, 10), 2125)


class BasketTotal(unittest.TestCase):
    def test_lines_are_price_and_quantity(self):
        self.assertEqual(basket_total([(250, 10), (100, 3)]), 2425)


if __name__ == "__main__":
    unittest.main()
