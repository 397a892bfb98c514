import { Menu } from "@base-ui/react/menu";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { productsQuery } from "../api/queries";
import { Icon } from "../ui/Icon";

export function useProduct(): string | undefined {
  return useSearch({ strict: false, select: (search: { product?: string }) => search.product });
}

export function ProductSwitcher({ className }: { className: string }) {
  const product = useProduct();
  const navigate = useNavigate();
  const { data } = useQuery(productsQuery);
  const choose = (id: string | undefined) =>
    void navigate({
      to: ".",
      search: ((previous: Record<string, unknown>) => ({ ...previous, product: id })) as never,
    });
  return (
    <Menu.Root>
      <Menu.Trigger className={className} aria-label={`Product: ${product ?? "All products"}`}>
        <span className="t1">{product ?? "All products"}</span>
        <Icon name="down" />
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner align="start" sideOffset={4}>
          <Menu.Popup className="pop">
            <Menu.Item className="pop-item" onClick={() => choose(undefined)}>
              All products
              {product === undefined && (
                <span className="right">
                  <Icon name="check" />
                </span>
              )}
            </Menu.Item>
            {(data?.items.length ?? 0) > 0 && <Menu.Separator className="pop-sep" />}
            {data?.items.map((item) => (
              <Menu.Item key={item.id} className="pop-item" onClick={() => choose(item.id)}>
                {item.id}
                <span className="right">
                  {item.id === product ? <Icon name="check" /> : item.paused ? "paused" : null}
                </span>
              </Menu.Item>
            ))}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
