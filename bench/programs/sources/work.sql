create table item (id integer primary key, name text, price integer, kind integer);
with recursive number (n) as (select 1 union all select n + 1 from number where n < 200000)
insert into item select n, printf('item %08x', n * 2654435761 % 4294967296), n * 7919 % 10007, n % 97 from number;
create index by_name on item (name);
create index by_price on item (price, kind);
select count(*), sum(price), min(name), max(name) from item;
select kind, count(*), avg(price) from item group by kind order by 3 desc limit 5;
select count(*) from item a join item b on a.price = b.price and a.kind = b.kind where a.id < 2000;
select sum(length(group_concat_name)) from (select group_concat(name) as group_concat_name from item group by kind);
create table blob (id integer primary key, data blob);
with recursive number (n) as (select 1 union all select n + 1 from number where n < 8)
insert into blob select n, zeroblob(1048576) from number;
update blob set data = cast(printf('%.*c', 1000000, 'x') as blob) where id % 2 = 0;
select id, length(data), hex(substr(data, 1, 4)) from blob;
delete from item where id % 3 = 0;
vacuum;
pragma integrity_check;
