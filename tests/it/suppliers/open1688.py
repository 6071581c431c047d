"""Calls the simulator with the public client `open-1688` (PyPI), which no one here wrote, and prints
what that client read as one JSON object. It judges nothing: the assertions are in open1688.rs.

Arguments: host:port, app key, app secret, access token. Needs `open-1688` and `requests`.
"""
import json
import sys

from aop.api import (
    AlibabaLogisticsOpQueryLogisticCompanyListParam,
    AlibabaTradeFastCreateOrderParam,
    AlibabaTradeGetBuyerOrderListParam,
    AlibabaTradeGetBuyerViewParam,
    AlibabaTradeGetLogisticsTraceInfoBuyerViewParam,
    AlibabaTradeReceiveAddressGetParam,
    BaseApi,
)
from aop.exceptions import ApiError
from aop.structure import Address, AppInfo, Cargo

domain, app_key, secret, token = sys.argv[1:5]
app = AppInfo(app_key, secret)


class ProductInfo(BaseApi):
    def __init__(self, app_info, access_token, offer_id):
        BaseApi.__init__(self, app_info, domain)
        self.access_token = access_token
        self.offerId = offer_id

    def get_api_uri(self):
        return "1/com.alibaba.fenxiao/alibaba.fenxiao.productInfo.get"

    def need_sign(self):
        return True


def error_of(call):
    try:
        call.get_response()
    except ApiError as error:
        return [error.error_code, error.error_message]
    return None


address = Address(
    None, "张三", "15251667788", "0517-88990077", "000000", "杭州市", "浙江省", "滨江区", "长河镇",
    "网商路699号", "330108",
)
cargo = Cargo()
cargo.add(610947572360, "b266e0726506185beaf205cbae88530d", 2)
cargo.add(554456348334, None, 4)

read = {"product": ProductInfo(app, token, "610947572360").get_response()}

create = AlibabaTradeFastCreateOrderParam(
    app, token, address, cargo, domain=domain, message="备注 & 带=号 +%2B"
)
read["create"] = create.get_response(outOrderId="so-1001")
order_id = read["create"]["result"]["orderId"]

read["view"] = AlibabaTradeGetBuyerViewParam(app, token, order_id, domain=domain).get_response()
read["list"] = AlibabaTradeGetBuyerOrderListParam(
    app, token, domain, is_his="false", page="1", page_size="50", order_status="waitbuyerpay"
).get_response()
read["trace"] = AlibabaTradeGetLogisticsTraceInfoBuyerViewParam(
    app, token, order_id, domain=domain
).get_response()
read["addresses"] = AlibabaTradeReceiveAddressGetParam(app, token, domain).get_response()
read["companies"] = AlibabaLogisticsOpQueryLogisticCompanyListParam(
    app, token, domain=domain
).get_response()

short = Cargo()
short.add(610947572360, "2ba3d63866a71fbae83909d9b4814f01", 26)
read["short"] = AlibabaTradeFastCreateOrderParam(
    app, token, address, short, domain=domain
).get_response()

read["bad_secret"] = error_of(ProductInfo(AppInfo(app_key, "wrong"), token, "610947572360"))
read["bad_token"] = error_of(ProductInfo(app, "stale", "610947572360"))

json.dump(read, sys.stdout)
